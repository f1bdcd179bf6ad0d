#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/stem_conv_kernel.h"
#include "kernels/stem_conv_mma.cuh"
#include "kernels/stem_conv_piece.cuh"
#include "kernels/stem_conv_rows.cuh"
#include "kernels/stem_conv_tiling.cuh"

namespace ampctl::kernels {
namespace {

// The sum over pixels of gradients (pixel, channel) times windows (pixel, tap): products of channels by taps.
// Each warp has all channels and a quarter of the taps.
constexpr int kChannelTiles = kStemOutChannels / 16;
constexpr int kTapTileSize = 8;
constexpr int kRowTapTiles = kStemRowTaps / kTapTileSize;
constexpr int kTapTiles = kStemTaps / kTapTileSize / kStemWarps;
constexpr int kTapPairs = (kTapTiles + 1) / 2;
static_assert(kTapTiles * kTapTileSize * kStemWarps == kStemTaps, "warps share the taps evenly");

// Gradients come in chunks: of one row of output pixels so many steps at most.
constexpr int kChunkSteps = 8;
constexpr int kVectorBytes = 16;
constexpr int kPixelVectors = kStemOutChannels * 2 / kVectorBytes;
// A pixel's gradients in shared memory; the gap spreads eight pixels' vectors over all banks.
constexpr int kGradientBytes = kStemOutChannels * 2 + kVectorBytes;
constexpr int kStepGradientBytes = kStemStep * kGradientBytes;
constexpr int kChunkBytes = kChunkSteps * kStepGradientBytes;

// A chunk of the gradients among those that a block works on.
struct Chunk {
  int64_t index;  // of the tile
  StemTile tile;
  int row = 0;   // in the tile
  int step = 0;  // its first

  __device__ explicit Chunk(const StemTiling& tiling) : index(blockIdx.x), tile(tiling, index) {}

  __device__ bool exists(const StemTiling& tiling) const { return index < tiling.tiles; }
  __device__ bool begins_tile() const { return row == 0 && step == 0; }
  __device__ int steps(const StemTiling& tiling) const { return min(kChunkSteps, tiling.steps - step); }

  __device__ void advance(const StemTiling& tiling) {
    step += kChunkSteps;
    if (step < tiling.steps) return;
    step = 0;
    if (++row < tile.rows) return;
    row = 0;
    index += gridDim.x;
    tile = StemTile(tiling, index);
  }
};

// Starts copying a chunk into shared memory, with zeros for pixels beyond the row's end.
template <typename T>
__device__ void fetch(const StemTiling& tiling, const Chunk& chunk, const T* grad_output, uint32_t shared) {
  const int64_t row = chunk.tile.image * tiling.out_height + chunk.tile.row + chunk.row;
  const T* from = grad_output + row * tiling.out_width * kStemOutChannels;
  const int first = chunk.step * kStemStep;
  const int vectors = chunk.steps(tiling) * kStemStep * kPixelVectors;
  for (int i = static_cast<int>(threadIdx.x); i < vectors; i += kStemThreads) {
    const int in_chunk = i / kPixelVectors;
    const int vector = i % kPixelVectors;
    const int pixel = first + in_chunk;
    const bool exists = pixel < tiling.out_width;
    const int offset =
        exists ? pixel * kStemOutChannels + vector * (kVectorBytes / static_cast<int>(sizeof(T))) : 0;
    copy_or_zero(shared + in_chunk * kGradientBytes + vector * kVectorBytes, from + offset, exists);
  }
}

// What a warp has of the gradient of the weight.
template <typename T>
class Products {
 public:
  __device__ explicit Products(const StemTiling& tiling)
      : first_tile_(static_cast<int>(threadIdx.x) / kStemWarp * kTapTiles) {
    const int lane = static_cast<int>(threadIdx.x) % kStemWarp;
    // Transposed, a matrix of eight pixels by eight channels or taps is one of channels or taps by pixels.
    // Four of them are channels by two and pixels by two; or pixels by two and taps by two.
    gradient_offset_ = (lane / 16 * 8 + lane % 8) * kGradientBytes + lane / 8 % 2 * kVectorBytes;
#pragma unroll
    for (int pair = 0; pair < kTapPairs; ++pair) {
      const int tile = first_tile_ + min(pair * 2 + lane / 16, kTapTiles - 1);
      window_offsets_[pair] =
          tile / kRowTapTiles * tiling.row_bytes + (tile % kRowTapTiles + lane % kStemStep) * kWindowStep;
    }
  }

  // Adds what the pixels of so many steps give.
  __device__ void add(uint32_t gradients, uint32_t windows, int steps) {
    Operands operands = load(gradients, windows);
#pragma unroll 2
    for (int step = 1; step < steps; ++step) {
      // On their way while the step before is multiplied.
      const Operands next = load(gradients + step * kStepGradientBytes, windows + step * kStemStepBytes);
      multiply(operands);
      operands = next;
    }
    multiply(operands);
  }

  __device__ void store(float* partials) const {
    const int lane = static_cast<int>(threadIdx.x) % kStemWarp;
#pragma unroll
    for (int m = 0; m < kChannelTiles; ++m) {
#pragma unroll
      for (int t = 0; t < kTapTiles; ++t) {
        const int tap = (first_tile_ + t) * kTapTileSize + lane % 4 * 2;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int channel = m * 16 + half * 8 + lane / 4;
          *reinterpret_cast<float2*>(partials + channel * kStemTaps + tap) =
              make_float2(sums_[m][t][half * 2], sums_[m][t][half * 2 + 1]);
        }
      }
    }
  }

 private:
  // Eight taps further on are what the next pixel begins with.
  static constexpr int kWindowStep = kTapTileSize * 2;
  static_assert(kWindowStep == kStemWindowBytes, "two input pixels are eight taps");

  // Those of a step.
  struct Operands {
    uint32_t channels[kChannelTiles][4];
    uint32_t taps[kTapPairs][4];
  };

  __device__ Operands load(uint32_t gradients, uint32_t windows) const {
    Operands operands;
#pragma unroll
    for (int m = 0; m < kChannelTiles; ++m) {
      load_transposed(operands.channels[m], gradients + gradient_offset_ + m * 2 * kVectorBytes);
    }
#pragma unroll
    for (int pair = 0; pair < kTapPairs; ++pair) {
      load_transposed(operands.taps[pair], windows + window_offsets_[pair]);
    }
    return operands;
  }

  __device__ void multiply(const Operands& operands) {
#pragma unroll
    for (int t = 0; t < kTapTiles; ++t) {
#pragma unroll
      for (int m = 0; m < kChannelTiles; ++m) {
        multiply_add<T>(sums_[m][t], operands.channels[m], operands.taps[t / 2][t % 2 * 2],
                        operands.taps[t / 2][t % 2 * 2 + 1]);
      }
    }
  }

  int first_tile_;
  uint32_t gradient_offset_;
  uint32_t window_offsets_[kTapPairs];
  float sums_[kChannelTiles][kTapTiles][4] = {};
};

template <typename T, typename In>
__global__ void __launch_bounds__(kStemThreads, kStemBlocks)
    weight_kernel(const StemTiling tiling, const T* __restrict__ grad_output, const In* __restrict__ input,
                  float* __restrict__ partials) {
  extern __shared__ uint4 shared_memory[];
  auto* shared = reinterpret_cast<unsigned char*>(shared_memory);
  const uint32_t windows = shared_address(shared);
  const uint32_t gradients = windows + static_cast<uint32_t>(tiling.tile_bytes());

  Products<T> products(tiling);
  uint32_t buffer = 0;  // of two, in bytes
  Chunk chunk(tiling);
  fetch(tiling, chunk, grad_output, gradients);
  while (chunk.exists(tiling)) {
    if (chunk.begins_tile()) {
      __syncthreads();  // the rows of the tile before have been read
      const In* image = input + chunk.tile.image * tiling.height * tiling.width * kStemInChannels;
      StemRows<T, In>(tiling, image, stem_first_row(chunk.tile), StemTiling::input_rows(chunk.tile.rows))
          .load(shared);
    }
    Chunk next = chunk;
    next.advance(tiling);
    wait_for_copies();
    __syncthreads();  // rows and chunk are there, and the other buffer has been read
    if (next.exists(tiling)) fetch(tiling, next, grad_output, gradients + (kChunkBytes - buffer));

    const uint32_t row = windows + chunk.row * kStemStride * tiling.row_bytes + chunk.step * kStemStepBytes;
    products.add(gradients + buffer, row, chunk.steps(tiling));
    chunk = next;
    buffer = kChunkBytes - buffer;
  }
  products.store(partials + blockIdx.x * kStemWeightPartials);
}

constexpr int kSlices = 8;
constexpr int kSliceThreads = 32;
constexpr int kWeights = kStemOutChannels * kStemKernel * kStemKernel * kStemInChannels;
static_assert(kWeights % kSliceThreads == 0, "every thread has a weight");

__device__ void store_rounded(__half* to, float value) { *to = __float2half_rn(value); }
__device__ void store_rounded(__nv_bfloat16* to, float value) { *to = __float2bfloat16_rn(value); }

template <typename T>
__global__ void __launch_bounds__(kSliceThreads* kSlices)
    sum_kernel(const float* __restrict__ partials, unsigned blocks, T* __restrict__ grad_weight) {
  __shared__ float slices[kSlices][kSliceThreads];
  const int lane = static_cast<int>(threadIdx.x) % kSliceThreads;
  const unsigned slice = threadIdx.x / kSliceThreads;
  const int weight = static_cast<int>(blockIdx.x) * kSliceThreads + lane;
  const int in_channel = weight % kStemInChannels;
  const int column = weight / kStemInChannels % kStemKernel;
  const int row = weight / (kStemInChannels * kStemKernel);  // of all channels
  // Taps have a column more on the left and a channel more.
  const float* from = partials + row * kStemRowTaps + (column + 1) * (kStemInChannels + 1) + in_channel;
  float sum = 0.0F;
#pragma unroll 8
  for (unsigned block = slice; block < blocks; block += kSlices) sum += from[block * kStemWeightPartials];
  slices[slice][lane] = sum;
  __syncthreads();
  if (slice > 0) return;
#pragma unroll
  for (int other = 1; other < kSlices; ++other) sum += slices[other][lane];
  store_rounded(grad_weight + weight, sum);
}

}  // namespace

cudaError_t launch_stem_conv_weight(const StemConv& conv, const StemWeightGradient& tensors,
                                    cudaStream_t stream) {
  return with_stem_types(conv, [&](auto types) {
    using T = typename decltype(types)::Compute;
    using In = typename decltype(types)::Input;
    const unsigned blocks = stem_conv_blocks(conv);
    if (blocks > 0) {
      const StemTiling tiling(conv);
      const int bytes = tiling.tile_bytes() + 2 * kChunkBytes;
      const cudaError_t error =
          cudaFuncSetAttribute(&weight_kernel<T, In>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
      if (error != cudaSuccess) return error;
      weight_kernel<T, In>
          <<<blocks, kStemThreads, bytes, stream>>>(tiling, static_cast<const T*>(tensors.grad_output),
                                                    static_cast<const In*>(tensors.input), tensors.partials);
      const cudaError_t launched = cudaGetLastError();
      if (launched != cudaSuccess) return launched;
    }
    sum_kernel<T><<<kWeights / kSliceThreads, kSliceThreads * kSlices, 0, stream>>>(
        tensors.partials, blocks, static_cast<T*>(tensors.grad_weight));
    return cudaGetLastError();
  });
}

}  // namespace ampctl::kernels
