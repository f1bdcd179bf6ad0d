// An image's rows in shared memory. C++17.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/channel_word.cuh"
#include "kernels/stem_conv_piece.cuh"
#include "kernels/stem_conv_tiling.cuh"

namespace ampctl::kernels {

/// An image's rows from `first` on, `count` of them, with zeros where there is no image.
template <typename T, typename In>
class StemRows {
 public:
  __device__ StemRows(const StemTiling& tiling, const In* image, int first, int count)
      : tiling_(tiling),
        image_(image),
        first_(first),
        row_pieces_(static_cast<unsigned>(tiling.row_bytes) / kPieceBytes),
        pieces_(static_cast<unsigned>(count) * row_pieces_) {}

  /// By all threads of the block.
  __device__ void load(unsigned char* shared) const {
    constexpr int kAlignment = kStemPiece * static_cast<int>(sizeof(In));
    const bool is_aligned =
        tiling_.width % kStemPiece == 0 && reinterpret_cast<uintptr_t>(image_) % kAlignment == 0;
    is_aligned ? load_vectors(shared) : load_values(shared);
  }

 private:
  using Values = float[kStemPiece * kStemInChannels];
  static constexpr int kPieceBytes = kStemPiece * kStemPixelBytes;
  static constexpr int kLeftColumns = 4;

  struct Place {
    int y;
    int x;
  };
  __device__ Place place(unsigned piece) const {
    const unsigned row = piece / row_pieces_;
    const unsigned in_row = piece - row * row_pieces_;
    return {first_ + static_cast<int>(row), static_cast<int>(in_row) * kStemPiece - kLeftColumns};
  }
  __device__ bool has(const Place& at) const {
    return at.y >= 0 && at.y < tiling_.height && at.x >= 0 && at.x < tiling_.width;
  }
  __device__ const In* pixel(const Place& at) const {
    return image_ + (static_cast<int64_t>(at.y) * tiling_.width + at.x) * kStemInChannels;
  }

  static __device__ void store(unsigned char* shared, unsigned piece, const Values& values) {
    uint32_t words[kStemPiece * 2];
#pragma unroll
    for (int p = 0; p < kStemPiece; ++p) {
      const float last[] = {values[p * kStemInChannels + 2], 0.0F};
      words[p * 2] = Word<T>::from_floats(values + p * kStemInChannels);
      words[p * 2 + 1] = Word<T>::from_floats(last);
    }
    auto* to = reinterpret_cast<uint4*>(shared + piece * kPieceBytes);
    to[0] = make_uint4(words[0], words[1], words[2], words[3]);
    to[1] = make_uint4(words[4], words[5], words[6], words[7]);
  }

  // Several pieces are on their way from memory at a time.
  __device__ void load_vectors(unsigned char* shared) const {
    constexpr int kBatch = 4;
    using Piece = StemPiece<In>;
    for (unsigned begin = threadIdx.x; begin < pieces_; begin += kStemThreads * kBatch) {
      Piece batch[kBatch] = {};
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const unsigned piece = begin + i * kStemThreads;
        const Place at = place(piece);
        if (piece < pieces_ && has(at)) {
          const auto* from = reinterpret_cast<const typename Piece::Vector*>(pixel(at));
#pragma unroll
          for (int v = 0; v < kStemInChannels; ++v) batch[i].vectors[v] = __ldg(from + v);
        }
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const unsigned piece = begin + i * kStemThreads;
        Values values;
        batch[i].unpack(values);
        if (piece < pieces_) store(shared, piece, values);
      }
    }
  }

  __device__ void load_values(unsigned char* shared) const {
#pragma unroll 1
    for (unsigned piece = threadIdx.x; piece < pieces_; piece += kStemThreads) {
      const Place at = place(piece);
      Values values = {};
      if (has(at)) {
        const In* from = pixel(at);
        const int left = (tiling_.width - at.x) * kStemInChannels;
#pragma unroll
        for (int i = 0; i < kStemPiece * kStemInChannels; ++i) {
          if (i < left) values[i] = stem_value(from[i]);
        }
      }
      store(shared, piece, values);
    }
  }

  const StemTiling& tiling_;
  const In* image_;
  int first_;
  unsigned row_pieces_;
  unsigned pieces_;
};

}  // namespace ampctl::kernels
