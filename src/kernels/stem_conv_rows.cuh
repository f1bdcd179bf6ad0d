// How the stem's kernels share out an image, and its rows in shared memory. C++17.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/channel_word.cuh"
#include "kernels/stem_conv_kernel.h"

namespace ampctl::kernels {

constexpr int kStemThreads = 128;
constexpr int kStemWarp = 32;
constexpr int kStemWarps = kStemThreads / kStemWarp;
/// On one multiprocessor at a time: one reads images while the other multiplies.
constexpr int kStemBlocks = 2;

/// Output pixels of one matrix product.
constexpr int kStemStep = 16;
/// The pieces of shared memory that successive output pixels begin at: two input pixels.
constexpr int kStemPixelBytes = 8;
constexpr int kStemWindowBytes = kStemStride * kStemPixelBytes;
constexpr int kStemStepBytes = kStemStep * kStemWindowBytes;
/// Shared memory that input rows may take; as much as kernels get without asking for more.
constexpr int kStemRowsBytes = 48 * 1024;

/// A tile is some rows of output pixels of one image.
struct StemTiling {
  int height;
  int width;
  int out_height;
  int out_width;
  int steps;      // that a row of output pixels takes; the last may reach beyond its end
  int row_bytes;  // of an input row in shared memory: columns from -4 on, with those that the last step reads
  int rows;       // of output pixels in a tile; an image's last tile may have fewer
  int image_tiles;
  int64_t tiles;

  explicit StemTiling(const StemConv& conv)
      : height(conv.height),
        width(conv.width),
        out_height(static_cast<int>(stem_pixels(conv.height))),
        out_width(static_cast<int>(stem_pixels(conv.width))),
        steps((out_width + kStemStep - 1) / kStemStep),
        row_bytes(steps * kStemStepBytes + kRowRest) {
    constexpr int kMostRows = 8;
    constexpr int kFewRows = 2;
    constexpr int kTilesPerBlock = 4;
    const int fitting = (kStemRowsBytes / row_bytes - kStemKernel) / kStemStride + 1;
    rows = fitting < kMostRows ? fitting : kMostRows;
    // Small batches are spread over the device, although tiles of few rows read many rows twice.
    const int64_t enough = int64_t{kTilesPerBlock} * kStemBlocks * conv.multiprocessors;
    while (rows / 2 >= kFewRows && conv.images * tiles_of(rows) < enough) rows /= 2;
    image_tiles = tiles_of(rows);
    tiles = conv.images * image_tiles;
  }

  __host__ __device__ static int input_rows(int rows) { return (rows - 1) * kStemStride + kStemKernel; }
  [[nodiscard]] __host__ __device__ int tile_bytes() const { return input_rows(rows) * row_bytes; }

 private:
  // The last window reaches six pixels beyond the two of its own place; rounded to what a thread writes.
  static constexpr int kRowRest = 8 * kStemPixelBytes;
  [[nodiscard]] int tiles_of(int tile_rows) const { return (out_height + tile_rows - 1) / tile_rows; }
};

/// The place of a tile.
struct StemTile {
  int64_t image;
  int row;   // its first of output pixels
  int rows;  // that it has

  __device__ StemTile(const StemTiling& tiling, int64_t tile) : image(tile / tiling.image_tiles) {
    row = static_cast<int>(tile - image * tiling.image_tiles) * tiling.rows;
    rows = min(tiling.rows, tiling.out_height - row);
  }
};

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

/// The first input row of a tile.
__device__ inline int stem_first_row(const StemTile& tile) { return tile.row * kStemStride - kStemPadding; }

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
