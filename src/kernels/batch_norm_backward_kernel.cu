#include <cuda_runtime.h>

#include "kernels/batch_norm_affine.cuh"
#include "kernels/batch_norm_dispatch.cuh"
#include "kernels/batch_norm_elements.cuh"
#include "kernels/batch_norm_gradient.cuh"
#include "kernels/batch_norm_kernel.h"
#include "kernels/batch_norm_slices.cuh"
#include "kernels/batch_norm_sums.cuh"

namespace ampctl::kernels {
namespace {

/// Packs of each tensor that a thread has on the way at once.
template <typename T>
constexpr int kSteps = sizeof(T) == sizeof(float) ? 2 : 4;

// Sums of the gradient and of its product with the input's deviation from its mean.
template <typename T, BatchNormForm kForm, bool kTwoGradients>
__global__ void __launch_bounds__(kSumThreads, 1)
    sums_kernel(const RowSlices slices, int channels, const BatchNormBackward tensors,
                const BatchNormChannels constants, const BatchNormScratch scratch) {
  constexpr bool kAdds = kForm == BatchNormForm::add_relu;
  __shared__ GroupSums shared;
  const SumPlace place(channels);
  const unsigned row_packs = channels / kBatchNormPack;
  float sums[kBatchNormPack] = {};
  float products[kBatchNormPack] = {};
  if (place.is_inside) {
    const Affine affine = Affine::load(constants, place.channel);
    float mean[kBatchNormPack];
    load_channels(constants.mean, place.channel, mean);
    const unsigned pack = place.channel / kBatchNormPack;
    for (unsigned tile = blockIdx.y; tile < slices.tiles; tile += slices.slices) {
      const unsigned begin = tile * slices.tile_rows + place.row;
      ReaderGradients<T, kTwoGradients> gradients[kSteps<T>];
      ChannelPack<T> input[kSteps<T>];
      unsigned positive[kSteps<T>] = {};
#pragma unroll
      for (int i = 0; i < kSteps<T>; ++i) {
        const unsigned row = begin + i * kSumRows;
        if (row >= slices.rows) continue;
        const int64_t index = int64_t{row} * row_packs + pack;
        gradients[i] =
            ReaderGradients<T, kTwoGradients>::load(tensors.grad_output, tensors.grad_second, index);
        input[i] = ChannelPack<T>::load(tensors.input, index);
        if constexpr (kAdds) positive[i] = tensors.positive[index];
      }
#pragma unroll
      for (int i = 0; i < kSteps<T>; ++i) {
        const unsigned row = begin + i * kSumRows;
        if (row >= slices.rows) continue;
        float values[kBatchNormPack];
        float x[kBatchNormPack];
        gradients[i].sum(values);
        input[i].unpack(x);
        if constexpr (kForm == BatchNormForm::relu) pass_relu_backward(values, x, affine);
        if constexpr (kAdds) {
          store_passed<T>(values, positive[i], tensors.grad_residual, int64_t{row} * row_packs + pack);
        }
#pragma unroll
        for (int c = 0; c < kBatchNormPack; ++c) {
          sums[c] += values[c];
          products[c] = fmaf(values[c], x[c] - mean[c], products[c]);
        }
      }
    }
  }
  finish_gradient_sums(shared, scratch, sums, products, channels, constants.invstd, tensors.grad_weight,
                       tensors.grad_bias);
}

// With ReLU a thread has more constants to hold.
template <BatchNormForm kForm>
constexpr int kInputBlocks = kForm == BatchNormForm::relu ? 2 : 3;

template <typename T, BatchNormForm kForm, int kSteps>
__global__ void __launch_bounds__(kElementThreads, kInputBlocks<kForm>)
    input_kernel(unsigned packs, unsigned row_packs, float rows, const BatchNormBackward tensors,
                 const BatchNormChannels constants) {
  const int channel = static_cast<int>(threadIdx.x % row_packs) * kBatchNormPack;
  const InputGradient input_gradient(constants, tensors.grad_weight, tensors.grad_bias, rows, channel);
  // After an addition the masked gradient is there already.
  constexpr bool kAdds = kForm == BatchNormForm::add_relu;
  const void* gradients = kAdds ? tensors.grad_residual : tensors.grad_output;
  for_each_tile<kSteps>(packs, [&](unsigned first) {
    ChannelPack<T> gradient[kSteps];
    ChannelPack<T> input[kSteps];
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const unsigned pack = first + i * blockDim.x;
      if (pack >= packs) continue;
      gradient[i] = ChannelPack<T>::load(gradients, pack);
      input[i] = ChannelPack<T>::load(tensors.input, pack);
    }
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const unsigned pack = first + i * blockDim.x;
      if (pack >= packs) continue;
      float values[kBatchNormPack];
      float x[kBatchNormPack];
      gradient[i].unpack(values);
      input[i].unpack(x);
      if constexpr (kForm == BatchNormForm::relu) pass_relu_backward(values, x, input_gradient.affine);
#pragma unroll
      for (int c = 0; c < kBatchNormPack; ++c) values[c] = input_gradient(values[c], x[c], c);
      ChannelPack<T>::pack(values).store(tensors.grad_input, pack);
    }
  });
}

template <typename T, BatchNormForm kForm, bool kTwoGradients>
void sums(const BatchNormShape& shape, const BatchNormBackward& tensors, const BatchNormChannels& constants,
          const BatchNormScratch& scratch, cudaStream_t stream) {
  const int groups = batch_norm_groups(shape.channels);
  const RowSlices slices = RowSlices::plan(shape.rows, kSteps<T>, groups, shape.multiprocessors);
  sums_kernel<T, kForm, kTwoGradients><<<dim3(groups, slices.slices), kSumThreads, 0, stream>>>(
      slices, shape.channels, tensors, constants, scratch);
}

template <typename T, BatchNormForm kForm, int kSteps>
void input_in_steps(const BatchNormShape& shape, const BatchNormBackward& tensors,
                    const BatchNormChannels& constants, cudaStream_t stream) {
  const ElementGrid grid = ElementGrid::plan(shape, kSteps, kInputBlocks<kForm>);
  input_kernel<T, kForm, kSteps><<<grid.blocks, grid.threads, 0, stream>>>(
      grid.packs, shape.channels / kBatchNormPack, static_cast<float>(shape.rows), tensors, constants);
}

template <typename T, BatchNormForm kForm>
void backward(const BatchNormShape& shape, const BatchNormBackward& tensors,
              const BatchNormChannels& constants, const BatchNormScratch& scratch, cudaStream_t stream) {
  if constexpr (kForm == BatchNormForm::add_relu) {
    if (tensors.grad_second != nullptr) {
      sums<T, kForm, true>(shape, tensors, constants, scratch, stream);
    } else {
      sums<T, kForm, false>(shape, tensors, constants, scratch, stream);
    }
  } else {
    sums<T, kForm, false>(shape, tensors, constants, scratch, stream);
  }
  if (is_small(shape)) {
    input_in_steps<T, kForm, 1>(shape, tensors, constants, stream);
  } else {
    input_in_steps<T, kForm, kSteps<T>>(shape, tensors, constants, stream);
  }
}

}  // namespace

cudaError_t launch_batch_norm_backward(const BatchNormShape& shape, BatchNormForm form,
                                       const BatchNormBackward& tensors, const BatchNormChannels& channels,
                                       const BatchNormScratch& scratch, cudaStream_t stream) {
  with_type(shape.type, [&](auto type) {
    with_form(form, [&](auto chosen) {
      backward<typename decltype(type)::Type, decltype(chosen)::value>(shape, tensors, channels, scratch,
                                                                       stream);
    });
  });
  return cudaGetLastError();
}

}  // namespace ampctl::kernels
