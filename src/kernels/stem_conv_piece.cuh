// Pixels of an image as the stem's kernels read them, and the kernels' types. C++17.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/channel_word.cuh"
#include "kernels/stem_conv_kernel.h"

namespace ampctl::kernels {

/// Four neighbouring pixels of an image as they are read, three vectors of four values.
constexpr int kStemPiece = 4;

template <typename In>
struct StemPiece {
  using Vector = uint2;
  Vector vectors[kStemInChannels];

  __device__ void unpack(float (&values)[kStemPiece * kStemInChannels]) const {
#pragma unroll
    for (int i = 0; i < kStemInChannels; ++i) {
      Word<In>::to_floats(vectors[i].x, values + i * 4);
      Word<In>::to_floats(vectors[i].y, values + i * 4 + 2);
    }
  }
};

template <>
struct StemPiece<float> {
  using Vector = float4;
  Vector vectors[kStemInChannels];

  __device__ void unpack(float (&values)[kStemPiece * kStemInChannels]) const {
#pragma unroll
    for (int i = 0; i < kStemInChannels; ++i) {
      values[i * 4] = vectors[i].x;
      values[i * 4 + 1] = vectors[i].y;
      values[i * 4 + 2] = vectors[i].z;
      values[i * 4 + 3] = vectors[i].w;
    }
  }
};

__device__ inline float stem_value(float value) { return value; }
__device__ inline float stem_value(__half value) { return __half2float(value); }
__device__ inline float stem_value(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename InputType, typename ComputeType>
struct StemTypes {
  using Input = InputType;
  using Compute = ComputeType;
};

/// `call` with the StemTypes of a convolution.
template <typename Call>
cudaError_t with_stem_types(const StemConv& conv, Call call) {
  const auto with_compute = [&](auto compute) {
    using T = decltype(compute);
    switch (conv.input) {
      case StemType::float16:
        return call(StemTypes<__half, T>{});
      case StemType::bfloat16:
        return call(StemTypes<__nv_bfloat16, T>{});
      case StemType::float32:
        break;
    }
    return call(StemTypes<float, T>{});
  };
  return conv.compute == StemType::float16 ? with_compute(__half{}) : with_compute(__nv_bfloat16{});
}

}  // namespace ampctl::kernels
