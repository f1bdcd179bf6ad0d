// Which part of some image-shaped work a thread does. C++17.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

namespace ampctl::kernels {

/// The work on each image: `pieces` groups of channels at each place of a grid.
struct ImageGrid {
  int64_t images;
  unsigned rows;
  unsigned columns;
  unsigned pieces;
};

struct GridItem {
  int64_t image;
  int row;
  int column;
  int piece;
};

/// The items of this block, consecutive over rows and images, so that neighbours share what the cache holds.
/// Only its beginning takes 64-bit divisions. `columns * pieces + kItems` has to fit into 31 bits.
class BlockItems {
 public:
  static constexpr int kItems = 1024;

  static int64_t blocks(const ImageGrid& grid) {
    return (grid.images * grid.rows * grid.columns * grid.pieces + kItems - 1) / kItems;
  }

  __device__ explicit BlockItems(const ImageGrid& grid)
      : grid_(grid), row_items_(grid.columns * grid.pieces) {
    const int64_t begin = static_cast<int64_t>(blockIdx.x) * kItems;
    const int64_t row = begin / row_items_;
    skipped_ = static_cast<unsigned>(begin - row * row_items_);
    image_ = row / grid.rows;
    row_ = static_cast<unsigned>(row - image_ * grid.rows);
    const int64_t left = grid.images * grid.rows * row_items_ - begin;
    size_ = left < kItems ? static_cast<unsigned>(left) : kItems;
  }

  __device__ unsigned size() const { return size_; }

  __device__ GridItem operator[](unsigned item) const {
    const unsigned at = skipped_ + item;
    const unsigned row = at / row_items_;
    const unsigned in_row = at - row * row_items_;
    const unsigned column = in_row / grid_.pieces;
    const unsigned all_rows = row_ + row;
    const unsigned image = all_rows / grid_.rows;
    return {image_ + image, static_cast<int>(all_rows - image * grid_.rows), static_cast<int>(column),
            static_cast<int>(in_row - column * grid_.pieces)};
  }

 private:
  ImageGrid grid_;
  unsigned row_items_;
  unsigned skipped_;  // items of the first row that belong to the block before
  int64_t image_;
  unsigned row_;
  unsigned size_;
};

}  // namespace ampctl::kernels
