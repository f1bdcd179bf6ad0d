// Mean and variance without cancellation. C++17.
//
// Sums of squares lose the variance of values far from zero. So each block takes off all its values the mean
// of the first ones, which is never far, one outlier among them or not.
#pragma once

#include "kernels/batch_norm_pack.cuh"
#include "kernels/batch_norm_strip.cuh"

namespace ampctl::kernels {

/// Rows whose mean is taken off.
constexpr unsigned kOriginRows = 8;

/// What a thread knows of its pack's values.
struct Deviations {
  float origin[kBatchNormPack] = {};
  float sums[kBatchNormPack] = {};
  float squares[kBatchNormPack] = {};

  /// The origin is the mean of the rows from `first_row` on, of which there is at least one.
  template <typename T>
  __device__ void load_origin(const void* input, unsigned first_row, unsigned rows, unsigned row_packs,
                              unsigned pack) {
    const unsigned count = min(kOriginRows, rows - first_row);
    ChannelPack<T> packs[kOriginRows];
#pragma unroll
    for (unsigned i = 0; i < kOriginRows; ++i) {
      // The last row stands in for those that are not there.
      const unsigned row = first_row + min(i, count - 1);
      packs[i] = ChannelPack<T>::load_cached(input, int64_t{row} * row_packs + pack);
    }
#pragma unroll
    for (const auto& row : packs) {
      float values[kBatchNormPack];
      row.unpack(values);
#pragma unroll
      for (int c = 0; c < kBatchNormPack; ++c) origin[c] += values[c] * (1.0F / kOriginRows);
    }
  }

  template <typename T, int kSteps>
  __device__ void add(const void* input, const Strip<kSteps>& strip) {
    ChannelPack<T> packs[kSteps];
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      if (strip.has(i)) packs[i] = ChannelPack<T>::load(input, strip[i]);
    }
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      if (!strip.has(i)) continue;
      float values[kBatchNormPack];
      packs[i].unpack(values);
#pragma unroll
      for (int c = 0; c < kBatchNormPack; ++c) {
        const float deviation = values[c] - origin[c];
        sums[c] += deviation;
        squares[c] = fmaf(deviation, deviation, squares[c]);
      }
    }
  }
};

/// From the mean and the sum of squared deviations from it, over `count` rows, to what PyTorch keeps.
__device__ inline void update_statistics(const BatchNormStatistics& statistics, int channel, float mean,
                                         float squared, float count) {
  if (squared < 0.0F) squared = 0.0F;  // NaN stays
  const float momentum = statistics.momentum;
  const auto blend = [momentum](float& running, float batch) {
    running = fmaf(momentum, batch, (1.0F - momentum) * running);
  };
  statistics.mean[channel] = mean;
  statistics.invstd[channel] = rsqrtf(squared / count + statistics.eps);
  if (statistics.running_mean != nullptr) {
    blend(statistics.running_mean[channel], mean);
    blend(statistics.running_var[channel], squared / (count - 1.0F));
  }
  if (channel == 0 && statistics.num_batches_tracked != nullptr) ++*statistics.num_batches_tracked;
}

}  // namespace ampctl::kernels
