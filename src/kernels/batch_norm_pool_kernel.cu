#include <cuda_runtime.h>

#include "kernels/batch_norm_affine.cuh"
#include "kernels/batch_norm_dispatch.cuh"
#include "kernels/batch_norm_elements.cuh"
#include "kernels/batch_norm_gradient.cuh"
#include "kernels/batch_norm_pool_kernel.h"
#include "kernels/batch_norm_slices.cuh"
#include "kernels/batch_norm_sums.cuh"
#include "kernels/grid_items.cuh"

namespace ampctl::kernels {
namespace {

constexpr int kWindow = 3;
constexpr int kStride = 2;
constexpr int kPadding = 1;
constexpr int kByteBits = 8;
constexpr unsigned kByteMask = 0xffU;

/// A pack's positions, a byte a channel.
struct PackPositions {
  uint2 words;

  static __device__ PackPositions none() { return {make_uint2(~0U, ~0U)}; }
  static __device__ PackPositions load(const uint8_t* positions, int64_t index) {
    return {__ldg(reinterpret_cast<const uint2*>(positions) + index)};
  }
  __device__ void set(int channel, unsigned position) {
    unsigned& word = channel < 4 ? words.x : words.y;
    const int shift = channel % 4 * kByteBits;
    word = (word & ~(kByteMask << shift)) | position << shift;
  }
  __device__ unsigned operator[](int channel) const {
    return (channel < 4 ? words.x : words.y) >> (channel % 4 * kByteBits) & kByteMask;
  }
};

__host__ __device__ ImageGrid pooled_grid(const BatchNormPoolShape& shape) {
  return {shape.images, static_cast<unsigned>(shape.pooled_height), static_cast<unsigned>(shape.pooled_width),
          static_cast<unsigned>(shape.norm.channels / kBatchNormPack)};
}

template <typename T>
__global__ void __launch_bounds__(kElementThreads)
    pool_apply_kernel(const BatchNormPoolShape shape, const void* __restrict__ input,
                      void* __restrict__ output, uint8_t* __restrict__ positions,
                      const BatchNormChannels constants) {
  extern __shared__ float affine[];  // scale of all channels, shift of all channels
  const int channels = shape.norm.channels;
  for (int c = static_cast<int>(threadIdx.x); c < channels; c += kElementThreads) {
    affine[c] = Affine::scale_of(constants.weight[c], constants.invstd[c]);
    affine[channels + c] = Affine::shift_of(constants.bias[c], constants.mean[c], affine[c]);
  }
  __syncthreads();
  const unsigned row_packs = channels / kBatchNormPack;
  const BlockItems items(pooled_grid(shape));
  for (unsigned item = threadIdx.x; item < items.size(); item += kElementThreads) {
    const GridItem place = items[item];
    const int top = place.row * kStride - kPadding;
    const int left = place.column * kStride - kPadding;
    const auto is_inside = [&](int i) {
      const int row = top + i / kWindow;
      const int column = left + i % kWindow;
      return row >= 0 && column >= 0 && row < shape.height && column < shape.width;
    };
    ChannelPack<T> window[kWindow * kWindow];
#pragma unroll
    for (int i = 0; i < kWindow * kWindow; ++i) {
      if (!is_inside(i)) continue;
      const int64_t pixel =
          (place.image * shape.height + top + i / kWindow) * shape.width + left + i % kWindow;
      window[i] = ChannelPack<T>::load_cached(input, pixel * row_packs + place.piece);
    }
    const float* scale = affine + place.piece * kBatchNormPack;
    const float* shift = scale + channels;
    float best[kBatchNormPack] = {};  // what ReLU leaves at least
    auto position = PackPositions::none();
#pragma unroll
    for (int i = 0; i < kWindow * kWindow; ++i) {
      if (!is_inside(i)) continue;
      float values[kBatchNormPack];
      window[i].unpack(values);
#pragma unroll
      for (int c = 0; c < kBatchNormPack; ++c) {
        const float value = fmaf(values[c], scale[c], shift[c]);
        if (value > best[c] || isnan(value)) {
          best[c] = value;
          position.set(c, i);
        }
      }
    }
    const int64_t pooled =
        (place.image * shape.pooled_height + place.row) * shape.pooled_width + place.column;
    const int64_t index = pooled * row_packs + place.piece;
    ChannelPack<T>::pack(best).store(output, index);
    reinterpret_cast<uint2*>(positions)[index] = position.words;
  }
}

/// 2 by 2 pixels of the input. There are as many as pooled pixels: (h, w) lies in windows (h, w) to
/// (h + 1, w + 1).
struct Patch {
  static constexpr int kSide = kStride;
  static constexpr int kPixels = kSide * kSide;

  unsigned image;
  int row;
  int column;

  __device__ Patch(const BatchNormPoolShape& shape, unsigned index) {
    const unsigned image_row = index / shape.pooled_width;
    column = static_cast<int>(index - image_row * shape.pooled_width);
    image = image_row / shape.pooled_height;
    row = static_cast<int>(image_row - image * shape.pooled_height);
  }
  __device__ bool has_pixel(const BatchNormPoolShape& shape, int i) const {
    return row * kSide + i / kSide < shape.height && column * kSide + i % kSide < shape.width;
  }
  __device__ int64_t pixel(const BatchNormPoolShape& shape, int i) const {
    const int64_t image_row = int64_t{image} * shape.height + row * kSide + i / kSide;
    return image_row * shape.width + column * kSide + i % kSide;
  }
};

template <typename T>
struct PatchPacks {
  ChannelPack<T> pixels[Patch::kPixels];

  __device__ PatchPacks(const BatchNormPoolShape& shape, const Patch& patch, const void* input,
                        unsigned row_packs, unsigned pack) {
#pragma unroll
    for (int i = 0; i < Patch::kPixels; ++i) {
      if (patch.has_pixel(shape, i)) {
        pixels[i] = ChannelPack<T>::load(input, patch.pixel(shape, i) * row_packs + pack);
      }
    }
  }
};

/// The gradient at batch norm's output of a patch, gathered from the windows over it.
template <typename T, bool kTwoGradients>
struct PatchGradient {
  float values[Patch::kPixels][kBatchNormPack] = {};

  __device__ PatchGradient(const BatchNormPoolShape& shape, const Patch& patch,
                           const BatchNormPoolBackward& tensors, unsigned row_packs, unsigned pack) {
#pragma unroll
    for (int w = 0; w < Patch::kPixels; ++w) {
      const int down = w / Patch::kSide;
      const int right = w % Patch::kSide;
      if (patch.row + down >= shape.pooled_height || patch.column + right >= shape.pooled_width) continue;
      const int64_t image_row = int64_t{patch.image} * shape.pooled_height + patch.row + down;
      const int64_t index = (image_row * shape.pooled_width + patch.column + right) * row_packs + pack;
      float gradient[kBatchNormPack];
      ChannelPack<T>::load_cached(tensors.grad_output, index).unpack(gradient);
      if constexpr (kTwoGradients) {
        float second[kBatchNormPack];
        ChannelPack<T>::load_cached(tensors.grad_second, index).unpack(second);
#pragma unroll
        for (int c = 0; c < kBatchNormPack; ++c) gradient[c] += second[c];
      }
      const auto positions = PackPositions::load(tensors.positions, index);
#pragma unroll
      for (int i = 0; i < Patch::kPixels; ++i) {
        // Where in the window the pixel is; the next window begins one pixel before the next patch.
        const int kh = i / Patch::kSide + kPadding - down * kStride;
        const int kw = i % Patch::kSide + kPadding - right * kStride;
        if (kh < 0 || kw < 0) continue;
#pragma unroll
        for (int c = 0; c < kBatchNormPack; ++c) {
          if (positions[c] == static_cast<unsigned>(kh * kWindow + kw)) values[i][c] += gradient[c];
        }
      }
    }
  }
};

template <typename T, bool kTwoGradients>
__global__ void __launch_bounds__(kSumThreads, 1)
    pool_sums_kernel(const BatchNormPoolShape shape, const RowSlices slices,
                     const BatchNormPoolBackward tensors, const BatchNormChannels constants,
                     const BatchNormScratch scratch) {
  __shared__ GroupSums shared;
  const int channels = shape.norm.channels;
  const SumPlace place(channels);
  const unsigned row_packs = channels / kBatchNormPack;
  float sums[kBatchNormPack] = {};
  float products[kBatchNormPack] = {};
  if (place.is_inside) {
    float mean[kBatchNormPack];
    load_channels(constants.mean, place.channel, mean);
    const unsigned pack = place.channel / kBatchNormPack;
    for (unsigned tile = blockIdx.y; tile < slices.tiles; tile += slices.slices) {
      const unsigned index = tile * slices.tile_rows + place.row;
      if (index >= slices.rows) continue;
      const Patch patch(shape, index);
      const PatchPacks<T> input(shape, patch, tensors.input, row_packs, pack);
      const PatchGradient<T, kTwoGradients> gradient(shape, patch, tensors, row_packs, pack);
#pragma unroll
      for (int i = 0; i < Patch::kPixels; ++i) {
        if (!patch.has_pixel(shape, i)) continue;
        float x[kBatchNormPack];
        input.pixels[i].unpack(x);
#pragma unroll
        for (int c = 0; c < kBatchNormPack; ++c) {
          sums[c] += gradient.values[i][c];
          products[c] = fmaf(gradient.values[i][c], x[c] - mean[c], products[c]);
        }
      }
    }
  }
  finish_gradient_sums(shared, scratch, sums, products, channels, constants.invstd, tensors.grad_weight,
                       tensors.grad_bias);
}

constexpr int kInputBlocks = 2;

template <typename T, bool kTwoGradients>
__global__ void __launch_bounds__(kElementThreads, kInputBlocks)
    pool_input_kernel(const BatchNormPoolShape shape, unsigned packs, const BatchNormPoolBackward tensors,
                      const BatchNormChannels constants) {
  const unsigned row_packs = shape.norm.channels / kBatchNormPack;
  const unsigned pack = threadIdx.x % row_packs;
  const InputGradient input_gradient(constants, tensors.grad_weight, tensors.grad_bias,
                                     static_cast<float>(shape.norm.rows),
                                     static_cast<int>(pack) * kBatchNormPack);
  for_each_tile<1>(packs, [&](unsigned first) {
    if (first >= packs) return;
    const Patch patch(shape, first / row_packs);
    const PatchPacks<T> input(shape, patch, tensors.input, row_packs, pack);
    const PatchGradient<T, kTwoGradients> gradient(shape, patch, tensors, row_packs, pack);
#pragma unroll
    for (int i = 0; i < Patch::kPixels; ++i) {
      if (!patch.has_pixel(shape, i)) continue;
      float values[kBatchNormPack];
      input.pixels[i].unpack(values);
#pragma unroll
      for (int c = 0; c < kBatchNormPack; ++c) {
        values[c] = input_gradient(gradient.values[i][c], values[c], c);
      }
      ChannelPack<T>::pack(values).store(tensors.grad_input, patch.pixel(shape, i) * row_packs + pack);
    }
  });
}

template <typename T, bool kTwoGradients>
void backward(const BatchNormPoolShape& shape, const BatchNormPoolBackward& tensors,
              const BatchNormChannels& constants, const BatchNormScratch& scratch, cudaStream_t stream) {
  BatchNormShape patches = shape.norm;
  patches.rows = int64_t{shape.images} * shape.pooled_height * shape.pooled_width;
  const int groups = batch_norm_groups(patches.channels);
  const RowSlices slices = RowSlices::plan(patches.rows, /*steps=*/1, groups, patches.multiprocessors);
  pool_sums_kernel<T, kTwoGradients>
      <<<dim3(groups, slices.slices), kSumThreads, 0, stream>>>(shape, slices, tensors, constants, scratch);
  const ElementGrid grid = ElementGrid::plan(patches, /*steps=*/1, kInputBlocks);
  pool_input_kernel<T, kTwoGradients>
      <<<grid.blocks, grid.threads, 0, stream>>>(shape, grid.packs, tensors, constants);
}

}  // namespace

cudaError_t launch_batch_norm_pool_apply(const BatchNormPoolShape& shape, const void* input, void* output,
                                         uint8_t* positions, const BatchNormChannels& channels,
                                         cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(BlockItems::blocks(pooled_grid(shape)));
  const size_t shared_bytes = 2 * sizeof(float) * static_cast<size_t>(shape.norm.channels);
  with_type(shape.norm.type, [&](auto type) {
    pool_apply_kernel<typename decltype(type)::Type>
        <<<blocks, kElementThreads, shared_bytes, stream>>>(shape, input, output, positions, channels);
  });
  return cudaGetLastError();
}

cudaError_t launch_batch_norm_pool_backward(const BatchNormPoolShape& shape,
                                            const BatchNormPoolBackward& tensors,
                                            const BatchNormChannels& channels,
                                            const BatchNormScratch& scratch, cudaStream_t stream) {
  with_type(shape.norm.type, [&](auto type) {
    using T = typename decltype(type)::Type;
    if (tensors.grad_second != nullptr) {
      backward<T, true>(shape, tensors, channels, scratch, stream);
    } else {
      backward<T, false>(shape, tensors, channels, scratch, stream);
    }
  });
  return cudaGetLastError();
}

}  // namespace ampctl::kernels
