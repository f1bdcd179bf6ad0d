// Eight channels of a pixel as a thread of the batch norm kernels holds them. C++17.
#pragma once

#include <cstdint>

#include "kernels/batch_norm_kernel.h"
#include "kernels/channel_word.cuh"

namespace ampctl::kernels {

/// The elements, in the type of the tensor. Tensors are arrays of these, indexed by pack.
template <typename T>
struct ChannelPack {
  static constexpr int kWords = kBatchNormPack / Word<T>::kLanes;
  static constexpr int kVectors = kWords / 4;

  uint4 vectors[kVectors];

  // Past the first-level cache: nothing here is read twice by one multiprocessor.
  static __device__ ChannelPack load(const void* tensor, int64_t index) {
    const auto* from = static_cast<const uint4*>(tensor) + index * kVectors;
    ChannelPack pack;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) pack.vectors[i] = __ldcg(from + i);
    return pack;
  }
  static __device__ ChannelPack load_cached(const void* tensor, int64_t index) {
    const auto* from = static_cast<const uint4*>(tensor) + index * kVectors;
    ChannelPack pack;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) pack.vectors[i] = __ldg(from + i);
    return pack;
  }
  __device__ void store(void* tensor, int64_t index) const {
    auto* to = static_cast<uint4*>(tensor) + index * kVectors;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) to[i] = vectors[i];
  }

  __device__ void unpack(float (&values)[kBatchNormPack]) const {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const uint32_t words[] = {vectors[i].x, vectors[i].y, vectors[i].z, vectors[i].w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        Word<T>::to_floats(words[j], values + (i * 4 + j) * Word<T>::kLanes);
      }
    }
  }
  static __device__ ChannelPack pack(const float (&values)[kBatchNormPack]) {
    ChannelPack pack;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      uint32_t words[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) words[j] = Word<T>::from_floats(values + (i * 4 + j) * Word<T>::kLanes);
      pack.vectors[i] = make_uint4(words[0], words[1], words[2], words[3]);
    }
    return pack;
  }
};

__device__ inline void load_channels(const float* from, int channel, float (&values)[kBatchNormPack]) {
  const float* begin = from + channel;
  if (reinterpret_cast<uintptr_t>(begin) % sizeof(float4) == 0) {
#pragma unroll
    for (int i = 0; i < kBatchNormPack; i += 4) {
      const float4 four = __ldg(reinterpret_cast<const float4*>(begin + i));
      values[i] = four.x;
      values[i + 1] = four.y;
      values[i + 2] = four.z;
      values[i + 3] = four.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kBatchNormPack; ++i) values[i] = __ldg(begin + i);
  }
}

}  // namespace ampctl::kernels
