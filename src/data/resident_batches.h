// A few made-up batches kept on the device and repeated, so that a benchmark on synthetic data measures the
// step and not the making of data.
#pragma once

#include <cstdint>
#include <vector>

#include "data/batch.h"
#include "data/dataset.h"
#include "data/device_stage.h"

namespace ampctl::data {

/// Row r of the batch that begins at position b * batch_size of epoch e is sample
/// (k * batch_size + r) mod size, with k = (b + e) mod 4 (fewer where the data set has fewer batches): a
/// function of (seed, epoch, position), so that a resumed epoch goes on exactly.
class ResidentBatches {
 public:
  ResidentBatches(const Dataset& dataset, int64_t batch_size, const DeviceStage& stage);

  /// `count` samples, at most a batch, for the positions from `start` of an epoch on. Positions that reach
  /// into the next batch (unequal shares at an epoch's end) take the end of their own instead: all of it is
  /// made up. The tensors are shared with earlier and later batches: they must not be changed in place.
  [[nodiscard]] Batch at(int64_t epoch, int64_t start, int64_t count) const;

 private:
  int64_t batch_size_;
  std::vector<Batch> batches_;
};

}  // namespace ampctl::data
