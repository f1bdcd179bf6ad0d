// Channels of a pixel as a thread of the max pooling kernels holds them. C++17.
#pragma once

#include <cstdint>
#include <cstring>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace ampctl::kernels {

constexpr int kVectorBytes = 16;
constexpr int kWordBytes = 4;
constexpr int kByteBits = 8;
constexpr int kHalfWordBits = 16;
constexpr unsigned kByteMask = 0xffU;
constexpr uint32_t kNoPositions = 0xffffffffU;

template <typename To, typename From>
__device__ To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

// One or two channels in a 32-bit word. wins() has all bits of a lane set where `value` replaces `best`.
template <typename T>
struct Word;

template <>
struct Word<float> {
  using Element = uint32_t;
  static constexpr int kLanes = 1;
  static constexpr uint32_t kLowest = 0xff800000U;

  static __device__ uint32_t wins(uint32_t value, uint32_t best) {
    const float x = bit_cast<float>(value);
    return x > bit_cast<float>(best) || isnan(x) ? ~0U : 0U;
  }
  static __device__ void to_floats(uint32_t word, float* values) { values[0] = bit_cast<float>(word); }
  static __device__ uint32_t from_floats(const float* values) { return bit_cast<uint32_t>(values[0]); }
};

template <>
struct Word<__half> {
  using Element = uint16_t;
  static constexpr int kLanes = 2;
  static constexpr uint32_t kLowest = 0xfc00fc00U;

  static __device__ uint32_t wins(uint32_t value, uint32_t best) {
    const auto x = bit_cast<__half2>(value);
    return __hgt2_mask(x, bit_cast<__half2>(best)) | __hneu2_mask(x, x);
  }
  static __device__ void to_floats(uint32_t word, float* values) {
    const float2 pair = __half22float2(bit_cast<__half2>(word));
    values[0] = pair.x;
    values[1] = pair.y;
  }
  static __device__ uint32_t from_floats(const float* values) {
    return bit_cast<uint32_t>(__floats2half2_rn(values[0], values[1]));
  }
};

template <>
struct Word<__nv_bfloat16> {
  using Element = uint16_t;
  static constexpr int kLanes = 2;
  static constexpr uint32_t kLowest = 0xff80ff80U;

  static __device__ uint32_t wins(uint32_t value, uint32_t best) {
    const auto x = bit_cast<__nv_bfloat162>(value);
    return __hgt2_mask(x, bit_cast<__nv_bfloat162>(best)) | __hneu2_mask(x, x);
  }
  static __device__ void to_floats(uint32_t word, float* values) {
    const float2 pair = __bfloat1622float2(bit_cast<__nv_bfloat162>(word));
    values[0] = pair.x;
    values[1] = pair.y;
  }
  static __device__ uint32_t from_floats(const float* values) {
    return bit_cast<uint32_t>(__floats2bfloat162_rn(values[0], values[1]));
  }
};

// What a thread takes of a pixel: 16 bytes of channels (kVector), or one channel in the first lane of a word.
template <typename T, bool kVector>
struct Piece {
  using Element = typename Word<T>::Element;
  static constexpr int kWords = kVector ? kVectorBytes / kWordBytes : 1;
  static constexpr int kLanes = kWords * Word<T>::kLanes;
  static constexpr int kChannels = kVector ? kLanes : 1;

  uint32_t words[kWords];

  static __device__ Piece filled(uint32_t word) {
    Piece piece;
#pragma unroll
    for (int i = 0; i < kWords; ++i) piece.words[i] = word;
    return piece;
  }
  static __device__ Piece load(const Element* from) {
    if constexpr (kVector) {
      const uint4 vector = __ldg(reinterpret_cast<const uint4*>(from));
      return {{vector.x, vector.y, vector.z, vector.w}};
    } else {
      return {{*from}};
    }
  }
  __device__ void store(Element* to) const {
    if constexpr (kVector) {
      *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
    } else {
      *to = static_cast<Element>(words[0]);
    }
  }
};

// A piece's positions, one byte a channel.
template <typename T, bool kVector>
struct Positions {
  static constexpr int kChannels = Piece<T, kVector>::kChannels;
  static constexpr int kWords = (kChannels + kWordBytes - 1) / kWordBytes;

  struct alignas(kWords* kWordBytes) Words {
    uint32_t values[kWords];
  };
  Words words;

  static __device__ Positions none() {
    Positions positions;
#pragma unroll
    for (int i = 0; i < kWords; ++i) positions.words.values[i] = kNoPositions;
    return positions;
  }
  static __device__ Positions load(const uint8_t* from) {
    if constexpr (kVector) {
      return {*reinterpret_cast<const Words*>(from)};
    } else {
      return {{{*from}}};
    }
  }
  // From words with a position in each lane.
  static __device__ void store(const Piece<T, kVector>& piece, uint8_t* to) {
    constexpr int kWordLanes = Word<T>::kLanes;
    Words bytes{};
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      const uint32_t lane = piece.words[c / kWordLanes] >> (c % kWordLanes * kHalfWordBits);
      bytes.values[c / kWordBytes] |= (lane & kByteMask) << (c % kWordBytes * kByteBits);
    }
    if constexpr (kVector) {
      *reinterpret_cast<Words*>(to) = bytes;
    } else {
      *to = static_cast<uint8_t>(bytes.values[0]);
    }
  }
  __device__ int operator[](int channel) const {
    return static_cast<int>(words.values[channel / kWordBytes] >> (channel % kWordBytes * kByteBits) &
                            kByteMask);
  }
};

}  // namespace ampctl::kernels
