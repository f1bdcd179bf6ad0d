#include <cuda_runtime.h>

#include "kernels/batch_norm_affine.cuh"
#include "kernels/batch_norm_dispatch.cuh"
#include "kernels/batch_norm_elements.cuh"
#include "kernels/batch_norm_kernel.h"
#include "kernels/batch_norm_slices.cuh"
#include "kernels/batch_norm_sums.cuh"

namespace ampctl::kernels {
namespace {

/// Packs a thread has on the way at once.
template <typename T>
constexpr int kSteps = sizeof(T) == sizeof(float) ? 2 : 4;

/// Rows whose mean a slice takes off.
constexpr unsigned kOriginRows = 8;

/// The mean of a slice's first rows.
template <typename T>
__device__ void load_origin(const void* input, const RowSlices& slices, unsigned row_packs, unsigned pack,
                            float (&origin)[kBatchNormPack]) {
  const unsigned first_row = blockIdx.y * slices.tile_rows;
  const unsigned count = min(kOriginRows, slices.rows - first_row);
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

// What is kept and updated of a channel: its mean and the sum of squared deviations from it.
__device__ void finish_channel(const BatchNormStatistics& statistics, int channel, float count, float mean,
                               float squared) {
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

// True when the sums that came with the input tell enough; all blocks of the group find the same.
__device__ bool finish_from_sums(const BatchNormStatistics& statistics, float count, int channels) {
  const int channel = static_cast<int>(blockIdx.x * kBatchNormGroup + threadIdx.x);
  const bool has_channel = threadIdx.x < kBatchNormGroup && channel < channels;
  float mean = 0.0F;
  float variance = 0.0F;
  if (has_channel) {
    mean = statistics.sums[channel] / count;
    variance = fmaf(-mean, mean, statistics.sums[channels + channel] / count);
  }
  // Not so for NaN and infinity either.
  if (__syncthreads_and(static_cast<int>(mean * mean <= kMaxMeanSquared * variance)) == 0) return false;
  if (has_channel && blockIdx.y == 0) finish_channel(statistics, channel, count, mean, variance * count);
  return true;
}

// Sums of squares lose the variance of values far from zero. So each slice takes off all its values the mean
// of the first ones, which is never far, one outlier among them or not. It hands on its mean and the squared
// deviations from it; these are put together as in https://doi.org/10.2307/2683386 (Chan, Golub and LeVeque).
template <typename T>
__global__ void __launch_bounds__(kSumThreads, kBatchNormSumBlocks)
    statistics_kernel(const RowSlices slices, int channels, const void* __restrict__ input,
                      const BatchNormStatistics statistics, const BatchNormScratch scratch) {
  __shared__ GroupSums shared;
  __shared__ float origins[kBatchNormGroup];
  const auto rows = static_cast<float>(slices.rows);
  if (statistics.sums != nullptr && finish_from_sums(statistics, rows, channels)) return;
  const SumPlace place(channels);
  const unsigned row_packs = channels / kBatchNormPack;
  const unsigned pack = place.channel / kBatchNormPack;
  float origin[kBatchNormPack] = {};
  float sums[kBatchNormPack] = {};
  float squares[kBatchNormPack] = {};
  if (place.is_inside) {
    load_origin<T>(input, slices, row_packs, pack, origin);
    for (unsigned tile = blockIdx.y; tile < slices.tiles; tile += slices.slices) {
      const unsigned begin = tile * slices.tile_rows + place.row;
      ChannelPack<T> packs[kSteps<T>];
#pragma unroll
      for (int i = 0; i < kSteps<T>; ++i) {
        const unsigned row = begin + i * kSumRows;
        if (row < slices.rows) packs[i] = ChannelPack<T>::load(input, int64_t{row} * row_packs + pack);
      }
#pragma unroll
      for (int i = 0; i < kSteps<T>; ++i) {
        if (begin + i * kSumRows >= slices.rows) continue;
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
  }
  if (threadIdx.x < kGroupPacks) {
#pragma unroll
    for (int c = 0; c < kBatchNormPack; ++c) origins[threadIdx.x * kBatchNormPack + c] = origin[c];
  }
  float2 own = block_sums(shared, sums, squares);
  if (threadIdx.x < kBatchNormGroup) {
    const auto count = static_cast<float>(slices.rows_of(blockIdx.y));
    const float mean = own.x / count;
    own = make_float2(origins[threadIdx.x] + mean, fmaf(-mean, own.x, own.y));
  }
  if (!leave_partials(scratch, own)) return;

  const auto* slice_zero = partials_of(scratch.partials, 0);
  const float2 all = sum_slices(
      shared, scratch, [&](float2& sum, const float2& partial, unsigned slice, unsigned channel_in_group) {
        const auto count = static_cast<float>(slices.rows_of(slice));
        const float deviation = partial.x - __ldcg(slice_zero + channel_in_group).x;
        sum.x = fmaf(count, deviation, sum.x);
        sum.y += fmaf(count * deviation, deviation, partial.y);
      });
  const int channel = static_cast<int>(blockIdx.x * kBatchNormGroup + threadIdx.x);
  if (threadIdx.x >= kBatchNormGroup || channel >= channels) return;
  const float offset = all.x / rows;
  const float mean = __ldcg(slice_zero + threadIdx.x).x + offset;
  float squared = fmaf(-offset, all.x, all.y);
  if (squared < 0.0F) squared = 0.0F;  // NaN stays
  finish_channel(statistics, channel, rows, mean, squared);
}

constexpr int kApplyBlocks = 4;

template <typename T, BatchNormForm kForm, int kSteps>
__global__ void __launch_bounds__(kElementThreads, kForm == BatchNormForm::add_relu ? 3 : kApplyBlocks)
    apply_kernel(unsigned packs, unsigned row_packs, const BatchNormApply tensors,
                 const BatchNormChannels channels) {
  constexpr bool kAdds = kForm == BatchNormForm::add_relu;
  const Affine affine = Affine::load(channels, static_cast<int>(threadIdx.x % row_packs) * kBatchNormPack);
  for_each_tile<kSteps>(packs, [&](unsigned first) {
    ChannelPack<T> input[kSteps];
    ChannelPack<T> residual[kAdds ? kSteps : 1];
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const unsigned pack = first + i * blockDim.x;
      if (pack >= packs) continue;
      input[i] = ChannelPack<T>::load(tensors.input, pack);
      if constexpr (kAdds) residual[i] = ChannelPack<T>::load(tensors.residual, pack);
    }
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const unsigned pack = first + i * blockDim.x;
      if (pack >= packs) continue;
      float values[kBatchNormPack];
      input[i].unpack(values);
#pragma unroll
      for (int c = 0; c < kBatchNormPack; ++c) values[c] = affine(values[c], c);
      if constexpr (kAdds) {
        float added[kBatchNormPack];
        residual[i].unpack(added);
#pragma unroll
        for (int c = 0; c < kBatchNormPack; ++c) values[c] += added[c];
        tensors.positive[pack] = static_cast<uint8_t>(relu(values));
      }
      if constexpr (kForm == BatchNormForm::relu) relu(values);
      ChannelPack<T>::pack(values).store(tensors.output, pack);
    }
  });
}

template <typename T, BatchNormForm kForm, int kSteps>
void apply_in_steps(const BatchNormShape& shape, const BatchNormApply& tensors,
                    const BatchNormChannels& channels, cudaStream_t stream) {
  const ElementGrid grid = ElementGrid::plan(shape, kSteps, kApplyBlocks);
  apply_kernel<T, kForm, kSteps><<<grid.blocks, grid.threads, 0, stream>>>(
      grid.packs, shape.channels / kBatchNormPack, tensors, channels);
}

template <typename T, BatchNormForm kForm>
void apply(const BatchNormShape& shape, const BatchNormApply& tensors, const BatchNormChannels& channels,
           cudaStream_t stream) {
  if (is_small(shape)) {
    apply_in_steps<T, kForm, 1>(shape, tensors, channels, stream);
  } else {
    apply_in_steps<T, kForm, kSteps<T>>(shape, tensors, channels, stream);
  }
}

template <typename T>
void statistics(const BatchNormShape& shape, const void* input, const BatchNormStatistics& found,
                const BatchNormScratch& scratch, cudaStream_t stream) {
  const int groups = batch_norm_groups(shape.channels);
  const RowSlices slices =
      RowSlices::plan(shape.rows, kSteps<T>, groups, shape.multiprocessors * kBatchNormSumBlocks);
  statistics_kernel<T><<<dim3(groups, slices.slices), kSumThreads, 0, stream>>>(slices, shape.channels, input,
                                                                                found, scratch);
}

}  // namespace

cudaError_t launch_batch_norm_statistics(const BatchNormShape& shape, const void* input,
                                         const BatchNormStatistics& found, const BatchNormScratch& scratch,
                                         cudaStream_t stream) {
  with_type(shape.type, [&](auto type) {
    statistics<typename decltype(type)::Type>(shape, input, found, scratch, stream);
  });
  return cudaGetLastError();
}

cudaError_t launch_batch_norm_apply(const BatchNormShape& shape, BatchNormForm form,
                                    const BatchNormApply& tensors, const BatchNormChannels& channels,
                                    cudaStream_t stream) {
  with_type(shape.type, [&](auto type) {
    with_form(form, [&](auto chosen) {
      apply<typename decltype(type)::Type, decltype(chosen)::value>(shape, tensors, channels, stream);
    });
  });
  return cudaGetLastError();
}

}  // namespace ampctl::kernels
