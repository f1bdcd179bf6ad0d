#include <cuda_runtime.h>

#include "kernels/batch_norm_columns_kernel.h"
#include "kernels/batch_norm_dispatch.cuh"
#include "kernels/batch_norm_elements.cuh"
#include "kernels/batch_norm_gradient.cuh"
#include "kernels/batch_norm_gradient_strip.cuh"
#include "kernels/batch_norm_kernel.h"
#include "kernels/batch_norm_pack.cuh"
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
  __shared__ GroupSums shared;
  const SumPlace place(channels);
  const unsigned row_packs = channels / kBatchNormPack;
  GradientSums gradient_sums;
  if (place.is_inside) {
    const Affine affine = Affine::load(constants, place.channel);
    gradient_sums.load_mean(constants, place.channel);
    const unsigned pack = place.channel / kBatchNormPack;
    for (unsigned tile = blockIdx.y; tile < slices.tiles; tile += slices.slices) {
      const unsigned row = tile * slices.tile_rows + place.row;
      gradient_sums.add<T, kForm, kTwoGradients>(
          tensors, Strip<kSteps<T>>{row * row_packs + pack, kSumRows * row_packs, slices.rows * row_packs},
          affine);
    }
  }
  finish_gradient_sums(shared, scratch, gradient_sums.sums, gradient_sums.products, channels,
                       constants.invstd, tensors.grad_weight, tensors.grad_bias);
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
  for_each_tile<kSteps>(packs, [&](unsigned first) {
    write_input_gradient<T, kForm>(tensors, Strip<kSteps>{first, blockDim.x, packs}, input_gradient);
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
  if (has_few_rows(shape)) {
    return launch_batch_norm_columns_backward(shape, form, tensors, channels, stream);
  }
  with_type(shape.type, [&](auto type) {
    with_form(form, [&](auto chosen) {
      backward<typename decltype(type)::Type, decltype(chosen)::value>(shape, tensors, channels, scratch,
                                                                       stream);
    });
  });
  return cudaGetLastError();
}

}  // namespace ampctl::kernels
