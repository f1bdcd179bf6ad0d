// Threads that decode and transform the samples of batches, all threads at the same batch, in order.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "data/dataset.h"
#include "data/transforms.h"

namespace ampctl::data {

/// A damaged sample that was left out of its batch.
struct SkippedSample {
  int64_t index = 0;  ///< in the data set
  std::string message;
};

/// A batch as it leaves the decoding threads.
struct HostBatch {
  at::Tensor images;   ///< (N, H, W, C) uint8, contiguous, pinned where asked; undefined when N is 0
  at::Tensor targets;  ///< (N) int64, likewise pinned
  int64_t consumed = 0;
  std::vector<SkippedSample> skipped;
  std::exception_ptr error;  ///< what decoding its first bad sample threw; the rest is empty then
};

struct DecodeOptions {
  int64_t num_threads = 1;
  int64_t seed = 0;
  bool pinned = false;
  bool skip_corrupt = false;
};

class DecodePool {
 public:
  /// Throws an environment error when the threads cannot be started.
  DecodePool(DatasetPtr dataset, Transforms transforms, const DecodeOptions& options);
  /// Never waits long for a thread that is stuck in a read: such a thread is left behind, with all it may
  /// touch kept alive by itself, and ends when its read does.
  ~DecodePool();
  DecodePool(const DecodePool&) = delete;
  DecodePool& operator=(const DecodePool&) = delete;

  /// Queues the batch of positions [start, start + count) of an epoch's order.
  void request(int64_t epoch, std::shared_ptr<const std::vector<int64_t>> order, int64_t start,
               int64_t count);
  /// Batches requested and not taken.
  [[nodiscard]] int64_t pending() const;
  /// The oldest of them. Without `wait` only if it is ready; with it, as soon as it is, or nullopt within
  /// 50 ms of *stop (may be null) becoming true.
  std::optional<HostBatch> take(bool wait, const std::atomic<bool>* stop);
  /// Forgets every pending batch.
  void clear();

 private:
  struct State;
  static void work(const std::shared_ptr<State>& state, size_t thread);

  std::shared_ptr<State> state_;
};

}  // namespace ampctl::data
