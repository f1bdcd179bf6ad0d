#include <cuda_runtime.h>

#include "kernels/batch_norm_affine.cuh"
#include "kernels/batch_norm_dispatch.cuh"
#include "kernels/batch_norm_elements.cuh"
#include "kernels/batch_norm_gradient.cuh"
#include "kernels/batch_norm_pair_kernel.h"
#include "kernels/batch_norm_slices.cuh"
#include "kernels/batch_norm_sums.cuh"

namespace ampctl::kernels {
namespace {

/// Packs of each tensor that a thread has on the way at once when it makes sums,
template <typename T>
constexpr int kSumSteps = sizeof(T) == sizeof(float) ? 2 : 4;

/// and when it goes over the elements, where it holds more constants of the two norms.
template <typename T>
constexpr int kElementSteps = sizeof(T) == sizeof(float) ? 1 : 2;

constexpr int kApplyBlocks = 3;
constexpr int kInputBlocks = 2;

template <typename T, int kSteps>
__global__ void __launch_bounds__(kElementThreads, kApplyBlocks)
    pair_apply_kernel(unsigned packs, unsigned row_packs, const BatchNormBranch first,
                      const BatchNormBranch second, void* output, uint8_t* positive) {
  const int channel = static_cast<int>(threadIdx.x % row_packs) * kBatchNormPack;
  const Affine first_affine = Affine::load(first.channels, channel);
  const Affine second_affine = Affine::load(second.channels, channel);
  for_each_tile<kSteps>(packs, [&](unsigned begin) {
    ChannelPack<T> first_input[kSteps];
    ChannelPack<T> second_input[kSteps];
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const unsigned pack = begin + i * blockDim.x;
      if (pack >= packs) continue;
      first_input[i] = ChannelPack<T>::load(first.input, pack);
      second_input[i] = ChannelPack<T>::load(second.input, pack);
    }
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const unsigned pack = begin + i * blockDim.x;
      if (pack >= packs) continue;
      float values[kBatchNormPack];
      float added[kBatchNormPack];
      first_input[i].unpack(values);
      second_input[i].unpack(added);
#pragma unroll
      for (int c = 0; c < kBatchNormPack; ++c) {
        values[c] = first_affine(values[c], c) + second_affine(added[c], c);
      }
      positive[pack] = static_cast<uint8_t>(relu(values));
      ChannelPack<T>::pack(values).store(output, pack);
    }
  });
}

// With g the gradient before the addition and d an input's deviation from its mean: the sums of g, and of
// g d for both inputs.
template <typename T, bool kTwoGradients>
__global__ void __launch_bounds__(kSumThreads, 1)
    pair_sums_kernel(const RowSlices slices, int channels, const BatchNormPairBackward tensors,
                     const BatchNormScratch scratch) {
  __shared__ GroupSums shared;
  const SumPlace place(channels);
  const unsigned row_packs = channels / kBatchNormPack;
  float sums[kBatchNormPack] = {};
  float first_products[kBatchNormPack] = {};
  float second_products[kBatchNormPack] = {};
  if (place.is_inside) {
    float first_mean[kBatchNormPack];
    float second_mean[kBatchNormPack];
    load_channels(tensors.first.channels.mean, place.channel, first_mean);
    load_channels(tensors.second.channels.mean, place.channel, second_mean);
    const unsigned pack = place.channel / kBatchNormPack;
    for (unsigned tile = blockIdx.y; tile < slices.tiles; tile += slices.slices) {
      const unsigned begin = tile * slices.tile_rows + place.row;
      ReaderGradients<T, kTwoGradients> gradients[kSumSteps<T>];
      ChannelPack<T> first_input[kSumSteps<T>];
      ChannelPack<T> second_input[kSumSteps<T>];
      unsigned positive[kSumSteps<T>] = {};
#pragma unroll
      for (int i = 0; i < kSumSteps<T>; ++i) {
        const unsigned row = begin + i * kSumRows;
        if (row >= slices.rows) continue;
        const int64_t index = int64_t{row} * row_packs + pack;
        gradients[i] =
            ReaderGradients<T, kTwoGradients>::load(tensors.grad_output, tensors.grad_second, index);
        first_input[i] = ChannelPack<T>::load(tensors.first.input, index);
        second_input[i] = ChannelPack<T>::load(tensors.second.input, index);
        positive[i] = tensors.positive[index];
      }
#pragma unroll
      for (int i = 0; i < kSumSteps<T>; ++i) {
        const unsigned row = begin + i * kSumRows;
        if (row >= slices.rows) continue;
        float values[kBatchNormPack];
        float x[kBatchNormPack];
        gradients[i].sum(values);
        store_passed<T>(values, positive[i], tensors.first_gradients.input, int64_t{row} * row_packs + pack);
        first_input[i].unpack(x);
#pragma unroll
        for (int c = 0; c < kBatchNormPack; ++c) {
          sums[c] += values[c];
          first_products[c] = fmaf(values[c], x[c] - first_mean[c], first_products[c]);
        }
        second_input[i].unpack(x);
#pragma unroll
        for (int c = 0; c < kBatchNormPack; ++c) {
          second_products[c] = fmaf(values[c], x[c] - second_mean[c], second_products[c]);
        }
      }
    }
  }
  float none[kBatchNormPack] = {};
  const float2 own[kBatchNormPairSums] = {block_sums(shared, sums, first_products),
                                          block_sums(shared, second_products, none)};
  if (!leave_partials(scratch, own)) return;
  const float2 first = add_slices(shared, scratch, 0);
  const float second_product = add_slices(shared, scratch, 1).x;
  const int channel = static_cast<int>(blockIdx.x * kBatchNormGroup + threadIdx.x);
  if (threadIdx.x >= kBatchNormGroup || channel >= channels) return;
  tensors.first_gradients.bias[channel] = first.x;
  tensors.second_gradients.bias[channel] = first.x;
  tensors.first_gradients.weight[channel] = first.y * tensors.first.channels.invstd[channel];
  tensors.second_gradients.weight[channel] = second_product * tensors.second.channels.invstd[channel];
}

template <typename T, int kSteps>
__global__ void __launch_bounds__(kElementThreads, kInputBlocks)
    pair_input_kernel(unsigned packs, unsigned row_packs, float rows, const BatchNormPairBackward tensors) {
  const int channel = static_cast<int>(threadIdx.x % row_packs) * kBatchNormPack;
  const InputGradient first(tensors.first.channels, tensors.first_gradients.weight,
                            tensors.first_gradients.bias, rows, channel);
  const InputGradient second(tensors.second.channels, tensors.second_gradients.weight,
                             tensors.second_gradients.bias, rows, channel);
  for_each_tile<kSteps>(packs, [&](unsigned begin) {
    ChannelPack<T> gradient[kSteps];
    ChannelPack<T> first_input[kSteps];
    ChannelPack<T> second_input[kSteps];
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const unsigned pack = begin + i * blockDim.x;
      if (pack >= packs) continue;
      gradient[i] = ChannelPack<T>::load(tensors.first_gradients.input, pack);
      first_input[i] = ChannelPack<T>::load(tensors.first.input, pack);
      second_input[i] = ChannelPack<T>::load(tensors.second.input, pack);
    }
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const unsigned pack = begin + i * blockDim.x;
      if (pack >= packs) continue;
      float values[kBatchNormPack];
      float x[kBatchNormPack];
      gradient[i].unpack(values);
      first_input[i].unpack(x);
#pragma unroll
      for (int c = 0; c < kBatchNormPack; ++c) x[c] = first(values[c], x[c], c);
      ChannelPack<T>::pack(x).store(tensors.first_gradients.input, pack);
      second_input[i].unpack(x);
#pragma unroll
      for (int c = 0; c < kBatchNormPack; ++c) x[c] = second(values[c], x[c], c);
      ChannelPack<T>::pack(x).store(tensors.second_gradients.input, pack);
    }
  });
}

template <typename T, int kSteps>
void apply_in_steps(const BatchNormShape& shape, const BatchNormBranch& first, const BatchNormBranch& second,
                    void* output, uint8_t* positive, cudaStream_t stream) {
  const ElementGrid grid = ElementGrid::plan(shape, kSteps, kApplyBlocks);
  pair_apply_kernel<T, kSteps><<<grid.blocks, grid.threads, 0, stream>>>(
      grid.packs, shape.channels / kBatchNormPack, first, second, output, positive);
}

template <typename T, bool kTwoGradients>
void sums(const BatchNormShape& shape, const BatchNormPairBackward& tensors, const BatchNormScratch& scratch,
          cudaStream_t stream) {
  const int groups = batch_norm_groups(shape.channels);
  const RowSlices slices = RowSlices::plan(shape.rows, kSumSteps<T>, groups, shape.multiprocessors);
  pair_sums_kernel<T, kTwoGradients>
      <<<dim3(groups, slices.slices), kSumThreads, 0, stream>>>(slices, shape.channels, tensors, scratch);
}

template <typename T, int kSteps>
void input_in_steps(const BatchNormShape& shape, const BatchNormPairBackward& tensors, cudaStream_t stream) {
  const ElementGrid grid = ElementGrid::plan(shape, kSteps, kInputBlocks);
  pair_input_kernel<T, kSteps><<<grid.blocks, grid.threads, 0, stream>>>(
      grid.packs, shape.channels / kBatchNormPack, static_cast<float>(shape.rows), tensors);
}

}  // namespace

cudaError_t launch_batch_norm_pair_apply(const BatchNormShape& shape, const BatchNormBranch& first,
                                         const BatchNormBranch& second, void* output, uint8_t* positive,
                                         cudaStream_t stream) {
  with_type(shape.type, [&](auto type) {
    using T = typename decltype(type)::Type;
    if (is_small(shape)) {
      apply_in_steps<T, 1>(shape, first, second, output, positive, stream);
    } else {
      apply_in_steps<T, kElementSteps<T>>(shape, first, second, output, positive, stream);
    }
  });
  return cudaGetLastError();
}

cudaError_t launch_batch_norm_pair_backward(const BatchNormShape& shape, const BatchNormPairBackward& tensors,
                                            const BatchNormScratch& scratch, cudaStream_t stream) {
  with_type(shape.type, [&](auto type) {
    using T = typename decltype(type)::Type;
    if (tensors.grad_second != nullptr) {
      sums<T, true>(shape, tensors, scratch, stream);
    } else {
      sums<T, false>(shape, tensors, scratch, stream);
    }
    if (is_small(shape)) {
      input_in_steps<T, 1>(shape, tensors, stream);
    } else {
      input_in_steps<T, kElementSteps<T>>(shape, tensors, stream);
    }
  });
  return cudaGetLastError();
}

}  // namespace ampctl::kernels
