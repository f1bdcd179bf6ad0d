#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/normalize_images_kernel.h"

namespace ampctl::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 65536;
constexpr int kPixels = 4;  // that a thread takes: 4 pixels of any number of channels are whole 32-bit words

__device__ void store(float* to, float value) { *to = value; }
__device__ void store(__half* to, float value) { *to = __float2half_rn(value); }
__device__ void store(__nv_bfloat16* to, float value) { *to = __float2bfloat16_rn(value); }

// Both operations are rounded, as on the CPU: no fused multiply-add.
__device__ float normalized(uint8_t value, float scale, float shift) {
  return __fadd_rn(__fmul_rn(static_cast<float>(value), scale), shift);
}

template <typename T, int kChannels>
__device__ void normalize_pixel(const NormalizeImages& work, const float* scale, const float* shift,
                                int64_t pixel, const uint8_t* values) {
  T* out = static_cast<T*>(work.out);
  const int64_t n = pixel / work.plane;
  const int64_t at = pixel - n * work.plane;
#pragma unroll
  for (int c = 0; c < kChannels; ++c) {
    const int64_t index = work.channels_last ? pixel * kChannels + c : (n * kChannels + c) * work.plane + at;
    store(out + index, normalized(values[c], scale[c], shift[c]));
  }
}

// Four neighbouring pixels of a channels_last image are one aligned piece of both input and output.
template <typename T, int kChannels>
struct alignas(sizeof(T) * kPixels) Piece {
  T values[kPixels * kChannels];
};

template <typename T, int kChannels>
__global__ void __launch_bounds__(kThreads) normalize_kernel(const NormalizeImages work) {
  float scale[kChannels];
  float shift[kChannels];
#pragma unroll
  for (int c = 0; c < kChannels; ++c) {
    scale[c] = work.scale[c];
    shift[c] = work.shift[c];
  }
  const int64_t pixels = work.n * work.plane;
  const int64_t pieces = pixels / kPixels;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (int64_t piece = first; piece < pieces; piece += stride) {
    const auto in = reinterpret_cast<const Piece<uint8_t, kChannels>*>(work.images)[piece];
    if (work.channels_last) {
      Piece<T, kChannels> out;
#pragma unroll
      for (int i = 0; i < kPixels * kChannels; ++i) {
        store(out.values + i, normalized(in.values[i], scale[i % kChannels], shift[i % kChannels]));
      }
      static_cast<Piece<T, kChannels>*>(work.out)[piece] = out;
    } else {
#pragma unroll
      for (int p = 0; p < kPixels; ++p) {
        normalize_pixel<T, kChannels>(work, scale, shift, piece * kPixels + p, in.values + p * kChannels);
      }
    }
  }
  const int64_t rest = pieces * kPixels + first;
  if (rest < pixels) {
    normalize_pixel<T, kChannels>(work, scale, shift, rest, work.images + rest * kChannels);
  }
}

template <typename T>
void launch(const NormalizeImages& work, unsigned blocks, cudaStream_t stream) {
  switch (work.channels) {
    case 1:
      normalize_kernel<T, 1><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case 2:
      normalize_kernel<T, 2><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case 3:
      normalize_kernel<T, 3><<<blocks, kThreads, 0, stream>>>(work);
      break;
    default:
      normalize_kernel<T, 4><<<blocks, kThreads, 0, stream>>>(work);
  }
}

}  // namespace

cudaError_t launch_normalize_images(const NormalizeImages& work, cudaStream_t stream) {
  const int64_t pixels = work.n * work.plane;
  if (pixels == 0) return cudaSuccess;
  const int64_t wanted = (pixels / kPixels + kThreads - 1) / kThreads;
  const auto blocks = static_cast<unsigned>(wanted < 1 ? 1 : wanted > kMaxBlocks ? kMaxBlocks : wanted);
  switch (work.type) {
    case ImageType::float32:
      launch<float>(work, blocks, stream);
      break;
    case ImageType::float16:
      launch<__half>(work, blocks, stream);
      break;
    case ImageType::bfloat16:
      launch<__nv_bfloat16>(work, blocks, stream);
      break;
  }
  return cudaGetLastError();
}

}  // namespace ampctl::kernels
