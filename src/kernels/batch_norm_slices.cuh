// Which rows and channels a block of batch norm's summing kernels has, and which of them a thread. C++17.
#pragma once

#include <cstdint>

#include "kernels/batch_norm_kernel.h"

namespace ampctl::kernels {

constexpr int kWarp = 32;
constexpr int kSumThreads = 512;
constexpr int kSumWarps = kSumThreads / kWarp;
constexpr int kGroupPacks = kBatchNormGroup / kBatchNormPack;
/// Rows that a block's threads stand at side by side.
constexpr int kSumRows = kSumThreads / kGroupPacks;

/// Rows in tiles of kSumRows * steps, which the slices take in turn: all blocks move through memory together,
/// and the last rows are what the cache holds when the next kernel begins with them.
struct RowSlices {
  unsigned rows;
  unsigned tile_rows;
  unsigned tiles;
  unsigned slices;

  /// `blocks` is how many run on the device at once. All slices have the same number of tiles, or one less.
  static RowSlices plan(int64_t rows, int steps, int groups, int blocks) {
    RowSlices plan{};
    plan.rows = static_cast<unsigned>(rows);
    plan.tile_rows = static_cast<unsigned>(kSumRows * steps);
    plan.tiles = (plan.rows + plan.tile_rows - 1) / plan.tile_rows;
    const auto most = static_cast<unsigned>(blocks > groups ? blocks / groups : 1);
    const unsigned rounds = (plan.tiles + most - 1) / most;
    plan.slices = (plan.tiles + rounds - 1) / rounds;
    return plan;
  }
  __device__ unsigned rows_of(unsigned slice) const {
    const unsigned own = (tiles - slice + slices - 1) / slices;
    const unsigned missing = (tiles - 1) % slices == slice ? tiles * tile_rows - rows : 0;
    return own * tile_rows - missing;
  }
};

/// Where a thread stands: blockIdx.x is the group, blockIdx.y the slice.
struct SumPlace {
  int channel;
  int row;  // within a tile
  bool is_inside;

  __device__ explicit SumPlace(int channels)
      : channel(static_cast<int>(blockIdx.x * kBatchNormGroup + threadIdx.x % kGroupPacks * kBatchNormPack)),
        row(static_cast<int>(threadIdx.x / kGroupPacks)),
        is_inside(channel < channels) {}
};

}  // namespace ampctl::kernels
