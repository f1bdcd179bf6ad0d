// Channels of a pixel as a thread of the max pooling kernels holds them. C++17.
#pragma once

#include <cstdint>

#include "kernels/channel_word.cuh"

namespace ampctl::kernels {

constexpr int kVectorBytes = 16;
constexpr int kWordBytes = 4;
constexpr int kByteBits = 8;
constexpr int kHalfWordBits = 16;
constexpr unsigned kByteMask = 0xffU;
constexpr uint32_t kNoPositions = 0xffffffffU;

/// What a thread takes of a pixel: 16 bytes of channels (kVector), or one channel in the first lane of a
/// word.
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

/// A piece's positions, one byte a channel.
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
