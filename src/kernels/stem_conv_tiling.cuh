// How the stem's kernels share out an image. C++17.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

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

/// The first input row of a tile.
__device__ inline int stem_first_row(const StemTile& tile) { return tile.row * kStemStride - kStemPadding; }

}  // namespace ampctl::kernels
