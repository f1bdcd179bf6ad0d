#include <cuda_runtime.h>

#include "kernels/grid_items.cuh"
#include "kernels/max_pool_kernel.h"
#include "kernels/max_pool_piece.cuh"

namespace ampctl::kernels {
namespace {

constexpr int kThreads = 256;

__device__ bool is_inside(int row, int column, int height, int width) {
  return row >= 0 && row < height && column >= 0 && column < width;
}

template <int kChannels>
__host__ __device__ ImageGrid output_grid(const MaxPool& pool) {
  return {pool.images, static_cast<unsigned>(pool.pooled_height), static_cast<unsigned>(pool.pooled_width),
          static_cast<unsigned>(pool.channels / kChannels)};
}

// kKernel is the window's size, or 0 where it is known at run time only.
template <typename T, bool kVector, int kKernel>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const MaxPool pool, const typename Word<T>::Element* __restrict__ input,
                   typename Word<T>::Element* __restrict__ output, uint8_t* __restrict__ positions) {
  using P = Piece<T, kVector>;
  constexpr uint32_t kEveryLane = Word<T>::kLanes == 1 ? 1U : (1U << kHalfWordBits) + 1U;
  const int kernel = kKernel > 0 ? kKernel : pool.kernel;
  const BlockItems items(output_grid<P::kChannels>(pool));
  for (unsigned item = threadIdx.x; item < items.size(); item += kThreads) {
    const GridItem place = items[item];
    const int top = place.row * pool.stride - pool.padding;
    const int left = place.column * pool.stride - pool.padding;
    const int channel = place.piece * P::kChannels;
    const auto* image = input + place.image * pool.height * pool.width * pool.channels + channel;
    // Where all values are -inf none is greater than the first.
    P best = P::filled(Word<T>::kLowest);
    P position = P::filled((max(0, -top) * kernel + max(0, -left)) * kEveryLane);
#pragma unroll
    for (int kh = 0; kh < kernel; ++kh) {
#pragma unroll
      for (int kw = 0; kw < kernel; ++kw) {
        const int row = top + kh;
        const int column = left + kw;
        const P value = is_inside(row, column, pool.height, pool.width)
                            ? P::load(image + (row * pool.width + column) * pool.channels)
                            : P::filled(Word<T>::kLowest);
        const uint32_t candidate = (kh * kernel + kw) * kEveryLane;
#pragma unroll
        for (int i = 0; i < P::kWords; ++i) {
          const uint32_t wins = Word<T>::wins(value.words[i], best.words[i]);
          best.words[i] = (value.words[i] & wins) | (best.words[i] & ~wins);
          position.words[i] = (candidate & wins) | (position.words[i] & ~wins);
        }
      }
    }
    const int64_t pixel = (place.image * pool.pooled_height + place.row) * pool.pooled_width + place.column;
    best.store(output + pixel * pool.channels + channel);
    Positions<T, kVector>::store(position, positions + pixel * pool.channels + channel);
  }
}

// A row or column of input pixels that lie in the same windows: pixel `first` + i is in window `last` - j, if
// there is one, at position `offset` + i + stride * j, if that is less than the window's size.
struct Patch {
  int first;
  int last;
  int offset;
};

// With a stride that is known when compiled there is a patch a stride, else a patch a pixel.
template <int kStride>
constexpr int kPatchPixels = kStride > 0 ? kStride : 1;

template <int kStride>
__device__ Patch patch_at(int index, const MaxPool& pool) {
  if constexpr (kStride > 0) return {index * kStride - pool.padding, index, 0};
  const int padded = index + pool.padding;
  const int last = padded / pool.stride;
  return {index, last, padded - last * pool.stride};
}

template <int kChannels, int kStride>
__host__ __device__ ImageGrid patch_grid(const MaxPool& pool) {
  const int rows = kStride > 0 ? (pool.height - 1 + pool.padding) / kPatchPixels<kStride> + 1 : pool.height;
  const int columns = kStride > 0 ? (pool.width - 1 + pool.padding) / kPatchPixels<kStride> + 1 : pool.width;
  return {pool.images, static_cast<unsigned>(rows), static_cast<unsigned>(columns),
          static_cast<unsigned>(pool.channels / kChannels)};
}

// Each patch of input pixels gathers from the windows that contain it; kStride as kKernel: 0 if not known.
template <typename T, bool kVector, int kKernel, int kStride>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(const MaxPool pool, const typename Word<T>::Element* __restrict__ grad_output,
                    const uint8_t* __restrict__ positions,
                    typename Word<T>::Element* __restrict__ grad_input) {
  using P = Piece<T, kVector>;
  constexpr int kPatch = kPatchPixels<kStride>;
  const int kernel = kKernel > 0 ? kKernel : pool.kernel;
  const int stride = kStride > 0 ? kStride : pool.stride;
  const int reach = (kernel + stride - 1) / stride;  // windows over a pixel, each way
  const BlockItems items(patch_grid<P::kChannels, kStride>(pool));
  for (unsigned item = threadIdx.x; item < items.size(); item += kThreads) {
    const GridItem place = items[item];
    const Patch rows = patch_at<kStride>(place.row, pool);
    const Patch columns = patch_at<kStride>(place.column, pool);
    const int channel = place.piece * P::kChannels;
    const int64_t pooled = place.image * pool.pooled_height * pool.pooled_width * pool.channels + channel;
    float sums[kPatch][kPatch][P::kLanes] = {};
#pragma unroll
    for (int jh = 0; jh < reach; ++jh) {
#pragma unroll
      for (int jw = 0; jw < reach; ++jw) {
        const int row = rows.last - jh;
        const int column = columns.last - jw;
        const bool inside = is_inside(row, column, pool.pooled_height, pool.pooled_width);
        const int64_t at = pooled + (row * pool.pooled_width + column) * pool.channels;
        const P dy = inside ? P::load(grad_output + at) : P::filled(0);
        const auto position =
            inside ? Positions<T, kVector>::load(positions + at) : Positions<T, kVector>::none();
        float values[P::kLanes];
#pragma unroll
        for (int i = 0; i < P::kWords; ++i) {
          Word<T>::to_floats(dy.words[i], values + i * Word<T>::kLanes);
        }
#pragma unroll
        for (int ih = 0; ih < kPatch; ++ih) {
#pragma unroll
          for (int iw = 0; iw < kPatch; ++iw) {
            const int kh = rows.offset + ih + stride * jh;
            const int kw = columns.offset + iw + stride * jw;
            if (kh >= kernel || kw >= kernel) continue;
#pragma unroll
            for (int c = 0; c < P::kChannels; ++c) {
              if (position[c] == kh * kernel + kw) sums[ih][iw][c] += values[c];
            }
          }
        }
      }
    }
#pragma unroll
    for (int ih = 0; ih < kPatch; ++ih) {
#pragma unroll
      for (int iw = 0; iw < kPatch; ++iw) {
        const int row = rows.first + ih;
        const int column = columns.first + iw;
        if (!is_inside(row, column, pool.height, pool.width)) continue;
        P dx;
#pragma unroll
        for (int i = 0; i < P::kWords; ++i) {
          dx.words[i] = Word<T>::from_floats(sums[ih][iw] + i * Word<T>::kLanes);
        }
        const int64_t pixel = (place.image * pool.height + row) * pool.width + column;
        dx.store(grad_input + pixel * pool.channels + channel);
      }
    }
  }
}

template <typename T, bool kVector, int kKernel>
void forward(const MaxPool& pool, const void* input, void* output, uint8_t* positions, cudaStream_t stream) {
  using Element = typename Word<T>::Element;
  const auto blocks =
      static_cast<unsigned>(BlockItems::blocks(output_grid<Piece<T, kVector>::kChannels>(pool)));
  forward_kernel<T, kVector, kKernel><<<blocks, kThreads, 0, stream>>>(
      pool, static_cast<const Element*>(input), static_cast<Element*>(output), positions);
}

template <typename T, bool kVector, int kKernel, int kStride>
void backward(const MaxPool& pool, const void* grad_output, const uint8_t* positions, void* grad_input,
              cudaStream_t stream) {
  using Element = typename Word<T>::Element;
  const auto blocks =
      static_cast<unsigned>(BlockItems::blocks(patch_grid<Piece<T, kVector>::kChannels, kStride>(pool)));
  backward_kernel<T, kVector, kKernel, kStride><<<blocks, kThreads, 0, stream>>>(
      pool, static_cast<const Element*>(grad_output), positions, static_cast<Element*>(grad_input));
}

bool is_aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % kVectorBytes == 0; }

template <typename T>
bool is_vector(const MaxPool& pool, const void* input, const void* output, const uint8_t* positions) {
  return pool.channels % Piece<T, true>::kChannels == 0 && is_aligned(input) && is_aligned(output) &&
         is_aligned(positions);
}

// Windows of the usual networks are compiled in: 3 by 3 with stride 2, and 2 by 2 with stride 2.
template <typename T>
void forward(const MaxPool& pool, const void* input, void* output, uint8_t* positions, cudaStream_t stream) {
  if (!is_vector<T>(pool, input, output, positions)) {
    forward<T, false, 0>(pool, input, output, positions, stream);
  } else if (pool.kernel == 3) {
    forward<T, true, 3>(pool, input, output, positions, stream);
  } else if (pool.kernel == 2) {
    forward<T, true, 2>(pool, input, output, positions, stream);
  } else {
    forward<T, true, 0>(pool, input, output, positions, stream);
  }
}

template <typename T>
void backward(const MaxPool& pool, const void* grad_output, const uint8_t* positions, void* grad_input,
              cudaStream_t stream) {
  if (!is_vector<T>(pool, grad_output, grad_input, positions)) {
    backward<T, false, 0, 0>(pool, grad_output, positions, grad_input, stream);
  } else if (pool.kernel == 3 && pool.stride == 2) {
    backward<T, true, 3, 2>(pool, grad_output, positions, grad_input, stream);
  } else if (pool.kernel == 2 && pool.stride == 2) {
    backward<T, true, 2, 2>(pool, grad_output, positions, grad_input, stream);
  } else {
    backward<T, true, 0, 0>(pool, grad_output, positions, grad_input, stream);
  }
}

}  // namespace

cudaError_t launch_max_pool_forward(const MaxPool& pool, const void* input, void* output, uint8_t* positions,
                                    cudaStream_t stream) {
  if (pool.images == 0) return cudaSuccess;
  switch (pool.type) {
    case PoolType::float32:
      forward<float>(pool, input, output, positions, stream);
      break;
    case PoolType::float16:
      forward<__half>(pool, input, output, positions, stream);
      break;
    case PoolType::bfloat16:
      forward<__nv_bfloat16>(pool, input, output, positions, stream);
      break;
  }
  return cudaGetLastError();
}

cudaError_t launch_max_pool_backward(const MaxPool& pool, const void* grad_output, const uint8_t* positions,
                                     void* grad_input, cudaStream_t stream) {
  if (pool.images == 0) return cudaSuccess;
  switch (pool.type) {
    case PoolType::float32:
      backward<float>(pool, grad_output, positions, grad_input, stream);
      break;
    case PoolType::float16:
      backward<__half>(pool, grad_output, positions, grad_input, stream);
      break;
    case PoolType::bfloat16:
      backward<__nv_bfloat16>(pool, grad_output, positions, grad_input, stream);
      break;
  }
  return cudaGetLastError();
}

}  // namespace ampctl::kernels
