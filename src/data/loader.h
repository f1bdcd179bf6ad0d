// Threads that decode and transform, a bounded queue of (pinned) batches, copies to the device on their own
// stream.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "data/batch.h"
#include "data/dataset.h"
#include "data/sampler.h"
#include "data/shard.h"

namespace ampctl::data {

struct LoaderOptions {
  int64_t batch_size = 1;       ///< of one rank
  Shard shard;                  ///< this rank's part of every window
  int64_t num_workers = 4;      ///< decoding threads; 0: one, which does nothing ahead of next()
  int64_t prefetch_factor = 2;  ///< decoded batches waiting at most, a worker
  bool pin_memory = true;
  bool drop_last = false;  ///< leaves out the last, shorter window
  bool shuffle = true;
  int64_t seed = 0;
  c10::Device device = c10::kCPU;
  c10::ScalarType dtype = c10::kFloat;
  bool channels_last = false;
  bool skip_corrupt = false;
  int64_t max_corrupt = 100;
};

/// One pass after another over an epoch's order, each from `start` on (a resumed epoch begins in its middle).
/// What comes out depends on (data set, transforms, seed, epoch, position) alone, not on threads or timing.
/// Shuffled made-up data without transforms repeats a few batches that stay on a GPU (resident_batches.h):
/// tensors of a Batch must not be changed in place.
class Loader {
 public:
  /// `stop` (may be null; else it outlives the loader) ends a wait early: next() then returns nullopt with
  /// stopped() true, also while a decoding thread is stuck in a read.
  Loader(DatasetPtr dataset, std::vector<config::TransformConfig> transforms, const LoaderOptions& options,
         const std::atomic<bool>* stop);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Begins epoch `epoch` at position `start` of its order, with several ranks a window's beginning. What was
  /// prefetched is dropped, unless it is just this: while a shuffled epoch ends, the beginning of the next
  /// one is decoded already.
  void begin_epoch(int64_t epoch, int64_t start);
  /// This rank's next micro-batch, or nullopt at the epoch's end (or when stopped), as ShardCursor cuts them.
  /// Throws what a decoding thread threw.
  std::optional<Batch> next();
  [[nodiscard]] bool stopped() const;
  /// Different files found damaged so far (on_corrupt: skip); the first few are named in warnings().
  [[nodiscard]] int64_t corrupt_count() const;
  [[nodiscard]] std::vector<std::string> take_warnings();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ampctl::data
