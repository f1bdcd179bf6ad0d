#include <cuda_runtime.h>

#include "kernels/batch_norm_columns_kernel.h"
#include "kernels/batch_norm_dispatch.cuh"
#include "kernels/batch_norm_gradient.cuh"
#include "kernels/batch_norm_gradient_strip.cuh"
#include "kernels/batch_norm_moments.cuh"
#include "kernels/batch_norm_normalise.cuh"
#include "kernels/batch_norm_pack.cuh"
#include "kernels/batch_norm_strip.cuh"
#include "kernels/batch_norm_sums.cuh"

namespace ampctl::kernels {
namespace {

/// A block's channels in 16 bits fill the 32 bytes that memory is read in.
constexpr int kColumnPacks = 2;
constexpr int kColumnChannels = kColumnPacks * kBatchNormPack;
constexpr unsigned kColumnRows = kSumThreads / kColumnPacks;

/// Packs of each tensor that a thread has on the way at once.
template <typename T>
constexpr int kSteps = sizeof(T) == sizeof(float) ? 2 : 4;

/// A thread's pack of each row, and the rows it goes over.
struct Column {
  unsigned rows;
  unsigned row_packs;
  unsigned pack;
  bool is_inside;

  __device__ Column(unsigned rows_, unsigned row_packs_)
      : rows(rows_),
        row_packs(row_packs_),
        pack(blockIdx.x * kColumnPacks + threadIdx.x % kColumnPacks),
        is_inside(pack < row_packs) {}
  __device__ int channel() const { return static_cast<int>(pack) * kBatchNormPack; }

  /// Calls `body(strip)` for all strips of the column, from the first row to the last or the other way: what
  /// was read last is nearest.
  template <int kSteps, typename Body>
  __device__ void for_each_strip(Body body, bool is_reversed) const {
    constexpr unsigned kTileRows = kColumnRows * kSteps;
    const unsigned tiles = (rows + kTileRows - 1) / kTileRows;
    for (unsigned i = 0; i < tiles; ++i) {
      const unsigned tile = is_reversed ? tiles - 1 - i : i;
      const unsigned row = tile * kTileRows + threadIdx.x / kColumnPacks;
      body(Strip<kSteps>{row * row_packs + pack, kColumnRows * row_packs, rows * row_packs});
    }
  }
};

template <typename T, BatchNormForm kForm>
__global__ void __launch_bounds__(kSumThreads)
    forward_kernel(unsigned rows, unsigned row_packs, const BatchNormApply tensors,
                   const BatchNormChannels constants, const BatchNormStatistics statistics) {
  __shared__ BlockSums<kColumnPacks> shared;
  __shared__ float origins[kColumnChannels];
  const Column column(rows, row_packs);
  Deviations deviations;
  if (column.is_inside) {
    deviations.load_origin<T>(tensors.input, /*first_row=*/0, rows, row_packs, column.pack);
    column.for_each_strip<kSteps<T>>([&](const auto& strip) { deviations.add<T>(tensors.input, strip); },
                                     /*is_reversed=*/false);
  }
  if (threadIdx.x < kColumnPacks) {
#pragma unroll
    for (int c = 0; c < kBatchNormPack; ++c) origins[threadIdx.x * kBatchNormPack + c] = deviations.origin[c];
  }
  const float2 all = block_sums(shared, deviations.sums, deviations.squares);
  const unsigned own_channel = blockIdx.x * kColumnChannels + threadIdx.x;
  if (threadIdx.x < kColumnChannels && own_channel < row_packs * kBatchNormPack) {
    const auto count = static_cast<float>(rows);
    const float offset = all.x / count;
    update_statistics(statistics, static_cast<int>(own_channel), origins[threadIdx.x] + offset,
                      fmaf(-offset, all.x, all.y), count);
  }
  __syncthreads();
  if (!column.is_inside) return;
  const Affine affine = Affine::load(constants, column.channel());
  column.for_each_strip<kSteps<T>>([&](const auto& strip) { normalise<T, kForm>(tensors, strip, affine); },
                                   /*is_reversed=*/true);
}

template <typename T, BatchNormForm kForm, bool kTwoGradients>
__global__ void __launch_bounds__(kSumThreads)
    backward_kernel(unsigned rows, unsigned row_packs, const BatchNormBackward tensors,
                    const BatchNormChannels constants) {
  __shared__ BlockSums<kColumnPacks> shared;
  const Column column(rows, row_packs);
  GradientSums gradient_sums;
  if (column.is_inside) {
    const Affine affine = Affine::load(constants, column.channel());
    gradient_sums.load_mean(constants, column.channel());
    column.for_each_strip<kSteps<T>>(
        [&](const auto& strip) { gradient_sums.add<T, kForm, kTwoGradients>(tensors, strip, affine); },
        /*is_reversed=*/false);
  }
  const float2 all = block_sums(shared, gradient_sums.sums, gradient_sums.products);
  const unsigned own_channel = blockIdx.x * kColumnChannels + threadIdx.x;
  if (threadIdx.x < kColumnChannels && own_channel < row_packs * kBatchNormPack) {
    tensors.grad_bias[own_channel] = all.x;
    tensors.grad_weight[own_channel] = all.y * constants.invstd[own_channel];
  }
  __syncthreads();
  if (!column.is_inside) return;
  const InputGradient input_gradient(constants, tensors.grad_weight, tensors.grad_bias,
                                     static_cast<float>(rows), column.channel());
  column.for_each_strip<kSteps<T>>(
      [&](const auto& strip) { write_input_gradient<T, kForm>(tensors, strip, input_gradient); },
      /*is_reversed=*/true);
}

unsigned row_packs_of(const BatchNormShape& shape) {
  return static_cast<unsigned>(shape.channels / kBatchNormPack);
}

unsigned blocks_of(const BatchNormShape& shape) {
  return (row_packs_of(shape) + kColumnPacks - 1) / kColumnPacks;
}

template <typename T, BatchNormForm kForm, bool kTwoGradients>
void backward(const BatchNormShape& shape, const BatchNormBackward& tensors,
              const BatchNormChannels& constants, cudaStream_t stream) {
  backward_kernel<T, kForm, kTwoGradients><<<blocks_of(shape), kSumThreads, 0, stream>>>(
      static_cast<unsigned>(shape.rows), row_packs_of(shape), tensors, constants);
}

}  // namespace

cudaError_t launch_batch_norm_columns_forward(const BatchNormShape& shape, BatchNormForm form,
                                              const BatchNormApply& tensors,
                                              const BatchNormChannels& channels,
                                              const BatchNormStatistics& statistics, cudaStream_t stream) {
  with_type(shape.type, [&](auto type) {
    with_form(form, [&](auto chosen) {
      forward_kernel<typename decltype(type)::Type, decltype(chosen)::value>
          <<<blocks_of(shape), kSumThreads, 0, stream>>>(static_cast<unsigned>(shape.rows),
                                                         row_packs_of(shape), tensors, channels, statistics);
    });
  });
  return cudaGetLastError();
}

cudaError_t launch_batch_norm_columns_backward(const BatchNormShape& shape, BatchNormForm form,
                                               const BatchNormBackward& tensors,
                                               const BatchNormChannels& channels, cudaStream_t stream) {
  with_type(shape.type, [&](auto type) {
    using T = typename decltype(type)::Type;
    with_form(form, [&](auto chosen) {
      constexpr BatchNormForm kForm = decltype(chosen)::value;
      if constexpr (kForm == BatchNormForm::add_relu) {
        if (tensors.grad_second != nullptr) return backward<T, kForm, true>(shape, tensors, channels, stream);
      }
      backward<T, kForm, false>(shape, tensors, channels, stream);
    });
  });
  return cudaGetLastError();
}

}  // namespace ampctl::kernels
