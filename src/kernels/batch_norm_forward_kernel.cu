#include <cuda_runtime.h>

#include "kernels/batch_norm_columns_kernel.h"
#include "kernels/batch_norm_dispatch.cuh"
#include "kernels/batch_norm_elements.cuh"
#include "kernels/batch_norm_kernel.h"
#include "kernels/batch_norm_moments.cuh"
#include "kernels/batch_norm_normalise.cuh"
#include "kernels/batch_norm_pack.cuh"
#include "kernels/batch_norm_sums.cuh"

namespace ampctl::kernels {
namespace {

/// Packs a thread has on the way at once.
template <typename T>
constexpr int kSteps = sizeof(T) == sizeof(float) ? 2 : 4;

// Each slice hands on its mean and the squared deviations from it; these are put together as in
// https://doi.org/10.2307/2683386 (Chan, Golub and LeVeque).
template <typename T>
__global__ void __launch_bounds__(kSumThreads, kBatchNormSumBlocks)
    statistics_kernel(const RowSlices slices, int channels, const void* __restrict__ input,
                      const BatchNormStatistics statistics, const BatchNormScratch scratch) {
  __shared__ GroupSums shared;
  __shared__ float origins[kBatchNormGroup];
  const SumPlace place(channels);
  const unsigned row_packs = channels / kBatchNormPack;
  const unsigned pack = place.channel / kBatchNormPack;
  Deviations deviations;
  if (place.is_inside) {
    deviations.load_origin<T>(input, blockIdx.y * slices.tile_rows, slices.rows, row_packs, pack);
    for (unsigned tile = blockIdx.y; tile < slices.tiles; tile += slices.slices) {
      const unsigned row = tile * slices.tile_rows + place.row;
      deviations.add<T>(
          input, Strip<kSteps<T>>{row * row_packs + pack, kSumRows * row_packs, slices.rows * row_packs});
    }
  }
  if (threadIdx.x < kGroupPacks) {
#pragma unroll
    for (int c = 0; c < kBatchNormPack; ++c) origins[threadIdx.x * kBatchNormPack + c] = deviations.origin[c];
  }
  float2 own = block_sums(shared, deviations.sums, deviations.squares);
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
  const auto count = static_cast<float>(slices.rows);
  const float offset = all.x / count;
  const float mean = __ldcg(slice_zero + threadIdx.x).x + offset;
  update_statistics(statistics, channel, mean, fmaf(-offset, all.x, all.y), count);
}

constexpr int kApplyBlocks = 4;

template <typename T, BatchNormForm kForm, int kSteps>
__global__ void __launch_bounds__(kElementThreads, kForm == BatchNormForm::add_relu ? 3 : kApplyBlocks)
    apply_kernel(unsigned packs, unsigned row_packs, const BatchNormApply tensors,
                 const BatchNormChannels channels) {
  const Affine affine = Affine::load(channels, static_cast<int>(threadIdx.x % row_packs) * kBatchNormPack);
  for_each_tile<kSteps>(packs, [&](unsigned first) {
    normalise<T, kForm>(tensors, Strip<kSteps>{first, blockDim.x, packs}, affine);
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

cudaError_t launch_batch_norm_forward(const BatchNormShape& shape, BatchNormForm form,
                                      const BatchNormApply& tensors, const BatchNormChannels& channels,
                                      const BatchNormStatistics& found, const BatchNormScratch& scratch,
                                      cudaStream_t stream) {
  if (has_few_rows(shape)) {
    return launch_batch_norm_columns_forward(shape, form, tensors, channels, found, stream);
  }
  with_type(shape.type, [&](auto type) {
    using T = typename decltype(type)::Type;
    statistics<T>(shape, tensors.input, found, scratch, stream);
    with_form(form,
              [&](auto chosen) { apply<T, decltype(chosen)::value>(shape, tensors, channels, stream); });
  });
  return cudaGetLastError();
}

}  // namespace ampctl::kernels
