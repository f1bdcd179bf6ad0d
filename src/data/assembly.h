// One batch while decoding threads fill it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "data/decode_pool.h"

namespace ampctl::data {

/// Every member function is called with the pool's lock held; add() gives it up while it copies pixels.
class Assembly {
 public:
  Assembly(int64_t epoch, std::shared_ptr<const std::vector<int64_t>> order, int64_t start, int64_t count,
           bool pinned);

  [[nodiscard]] int64_t epoch() const { return epoch_; }
  [[nodiscard]] bool has_work() const { return next_ < count_; }
  [[nodiscard]] bool ready() const { return done_ == count_; }
  /// The place of a sample that no thread has taken yet.
  int64_t take_place() { return next_++; }
  /// The data set's index of the sample at `place`.
  [[nodiscard]] int64_t index_at(int64_t place) const;

  /// Puts a decoded sample in its place. Nothing happens after drop().
  void add(int64_t place, const Image& image, const Dataset& dataset, std::unique_lock<std::mutex>& lock);
  void add_skipped(int64_t place, SkippedSample skipped);
  void add_error(int64_t place, std::exception_ptr error);

  /// The finished batch, without the places of skipped samples.
  HostBatch finish(const Dataset& dataset);

  /// Frees the batch's memory now, whoever still holds this object; waits for copies under way.
  void drop(std::unique_lock<std::mutex>& lock);

 private:
  void allocate(const Image& image);
  [[nodiscard]] std::exception_ptr size_error(int64_t place, const Image& image,
                                              const Dataset& dataset) const;
  void close_gaps(const std::vector<int64_t>& kept);

  int64_t epoch_;
  std::shared_ptr<const std::vector<int64_t>> order_;
  int64_t start_;
  int64_t count_;
  bool pinned_;
  int64_t next_ = 0;
  int64_t done_ = 0;
  int64_t copying_ = 0;
  bool dropped_ = false;
  std::condition_variable copied_;
  at::Tensor images_;
  int64_t first_place_ = -1;  // whose sample gave the batch its size
  std::vector<uint8_t> bad_;  // places without a sample
  std::vector<std::pair<int64_t, SkippedSample>> skipped_;
  std::exception_ptr error_;
  int64_t error_place_ = 0;
};

}  // namespace ampctl::data
