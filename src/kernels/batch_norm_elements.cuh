// How the batch norm kernels that make no sums go over the elements. C++17.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/batch_norm_kernel.h"

namespace ampctl::kernels {

constexpr int kElementThreads = 256;

/// A thread's packs are all of the same channels: a block has a multiple of the packs in a row as threads.
struct ElementGrid {
  unsigned packs;
  unsigned blocks;
  unsigned threads;

  static ElementGrid plan(const BatchNormShape& shape, int steps, int blocks_per_multiprocessor) {
    const auto row_packs = static_cast<unsigned>(shape.channels / kBatchNormPack);
    ElementGrid grid{};
    grid.packs = static_cast<unsigned>(shape.rows) * row_packs;
    grid.threads = kElementThreads / row_packs * row_packs;
    const unsigned tile = grid.threads * static_cast<unsigned>(steps);
    const auto most = static_cast<unsigned>(shape.multiprocessors * blocks_per_multiprocessor);
    grid.blocks = std::min((grid.packs + tile - 1) / tile, most);
    return grid;
  }
};

/// Calls `body(first)` for each of the block's tiles, from the tensor's end to its beginning: the sums before
/// ended there, and the cache holds it. The thread's packs are first, first + blockDim.x, ..., kSteps of
/// them.
template <int kSteps, typename Body>
__device__ void for_each_tile(unsigned packs, Body body) {
  const unsigned tile_packs = blockDim.x * kSteps;
  const unsigned tiles = (packs + tile_packs - 1) / tile_packs;
  for (unsigned tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    body((tiles - 1 - tile) * tile_packs + threadIdx.x);
  }
}

}  // namespace ampctl::kernels
