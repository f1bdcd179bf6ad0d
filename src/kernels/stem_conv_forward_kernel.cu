#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/channel_word.cuh"
#include "kernels/stem_conv_kernel.h"
#include "kernels/stem_conv_mma.cuh"
#include "kernels/stem_conv_piece.cuh"
#include "kernels/stem_conv_rows.cuh"
#include "kernels/stem_conv_tiling.cuh"

namespace ampctl::kernels {
namespace {

constexpr int kDepth = 16;  // taps of one matrix product
constexpr int kRowDepths = kStemRowTaps / kDepth;
constexpr int kDepths = kStemTaps / kDepth;

// A warp has half of the channels, and every other pair of steps. Two steps at a time are enough independent
// products to keep tensor cores busy.
constexpr int kWarpChannels = 32;
constexpr int kTiles = kWarpChannels / 8;
constexpr int kChannelWarps = kStemOutChannels / kWarpChannels;
constexpr int kPixelWarps = kStemWarps / kChannelWarps;
constexpr int kPair = 2;

// Channels of an output pixel that a thread has: one vector of 16 bytes.
constexpr int kThreadChannels = 8;

// The weights of a warp's channels as mma.sync takes them. Channels are dealt out to the columns of products
// so that a thread's results for one pixel are neighbouring channels: column n of tile j is channel
// 8 (n / 2) + 2 j + n % 2.
template <typename T>
struct Weights {
  uint32_t words[kDepths][kTiles][2];

  __device__ void load(const T* weight, int first_channel) {
    const auto* elements = reinterpret_cast<const uint16_t*>(weight);
    const int lane = static_cast<int>(threadIdx.x) % kStemWarp;
    const int column = lane / 4;
    const int quad = lane % 4;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const int channel = first_channel + column / 2 * kThreadChannels + tile * 2 + column % 2;
#pragma unroll
      for (int depth = 0; depth < kDepths; ++depth) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          // Taps 2 quad and the next of eight: channels 0 and 1, or 2 and none, of one of two columns.
          const int column_tap = depth % kRowDepths * 4 + half * 2 + quad / 2;
          const int in_channel = quad % 2 * 2;
          words[depth][tile][half] = pair(elements, channel, depth / kRowDepths, column_tap - 1, in_channel);
        }
      }
    }
  }

 private:
  static __device__ uint32_t pair(const uint16_t* weight, int channel, int row, int column, int in_channel) {
    if (column < 0) return 0;
    const uint16_t* from =
        weight + ((channel * kStemKernel + row) * kStemKernel + column) * kStemInChannels + in_channel;
    const uint32_t low = __ldg(from);
    const uint32_t high = in_channel == 0 ? __ldg(from + 1) : 0;
    return low | high << 16U;
  }
};

// What a thread knows of its channels: sums over the outputs of its pixels.
struct ChannelSums {
  float sums[kThreadChannels] = {};
  float squares[kThreadChannels] = {};

  // Leaves the block's sums: first those of all channels, then those of squares. `shared` has room for
  // kStemForwardPartials floats a warp of pixels.
  __device__ void leave(float* shared, int first_channel, int pixel_warp, float* partials) {
    const int lane = static_cast<int>(threadIdx.x) % kStemWarp;
#pragma unroll
    for (int offset = 4; offset < kStemWarp; offset *= 2) {
#pragma unroll
      for (int c = 0; c < kThreadChannels; ++c) {
        sums[c] += __shfl_xor_sync(~0U, sums[c], offset);
        squares[c] += __shfl_xor_sync(~0U, squares[c], offset);
      }
    }
    __syncthreads();  // the shared memory held rows
    if (lane < 4) {
      float* to = shared + pixel_warp * kStemForwardPartials + first_channel + lane * kThreadChannels;
#pragma unroll
      for (int c = 0; c < kThreadChannels; ++c) {
        to[c] = sums[c];
        to[kStemOutChannels + c] = squares[c];
      }
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kStemForwardPartials; i += kStemThreads) {
      float sum = 0.0F;
#pragma unroll
      for (int warp = 0; warp < kPixelWarps; ++warp) sum += shared[warp * kStemForwardPartials + i];
      partials[i] = sum;
    }
  }
};

// Rounds a thread's channels of one pixel, writes and sums them. kHalf: the upper or the lower eight rows of
// the products.
template <typename T, int kHalf>
__device__ void finish_pixel(const float (&products)[kTiles][4], T* to, ChannelSums& sums) {
  uint32_t words[kTiles];
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    words[tile] = Word<T>::from_floats(products[tile] + kHalf * 2);
    float values[2];
    Word<T>::to_floats(words[tile], values);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      sums.sums[tile * 2 + i] += values[i];
      sums.squares[tile * 2 + i] = fmaf(values[i], values[i], sums.squares[tile * 2 + i]);
    }
  }
  *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
}

template <typename T, typename In>
__global__ void __launch_bounds__(kStemThreads, kStemBlocks)
    forward_kernel(const StemTiling tiling, const In* __restrict__ input, const T* __restrict__ weight,
                   T* __restrict__ output, float* __restrict__ partials) {
  extern __shared__ uint4 shared_memory[];
  auto* shared = reinterpret_cast<unsigned char*>(shared_memory);
  const int lane = static_cast<int>(threadIdx.x) % kStemWarp;
  const int warp = static_cast<int>(threadIdx.x) / kStemWarp;
  const int first_channel = warp % kChannelWarps * kWarpChannels;
  const int pixel_warp = warp / kChannelWarps;
  // Rows of the matrix of windows: 16 pixels, of eight taps each, and the next eight taps.
  const uint32_t lane_address = shared_address(shared) + lane % kStemStep * kStemWindowBytes + lane / 16 * 16;

  Weights<T> weights;
  weights.load(weight, first_channel);
  ChannelSums sums;
  for (int64_t index = blockIdx.x; index < tiling.tiles; index += gridDim.x) {
    const StemTile tile(tiling, index);
    const In* image = input + tile.image * tiling.height * tiling.width * kStemInChannels;
    __syncthreads();  // the rows of the tile before have been read
    StemRows<T, In>(tiling, image, stem_first_row(tile), StemTiling::input_rows(tile.rows)).load(shared);
    __syncthreads();

    const int64_t first_row = tile.image * tiling.out_height + tile.row;
    const int steps = tile.rows * tiling.steps;
#pragma unroll 1
    for (int begin = pixel_warp * kPair; begin < steps; begin += kPixelWarps * kPair) {
      float products[kPair][kTiles][4] = {};
      int row[kPair];
      int column[kPair];
      uint32_t address[kPair];
#pragma unroll
      for (int i = 0; i < kPair; ++i) {
        const int step = min(begin + i, steps - 1);
        row[i] = step / tiling.steps;
        column[i] = step - row[i] * tiling.steps;
        address[i] = lane_address + row[i] * kStemStride * tiling.row_bytes + column[i] * kStemStepBytes;
      }
#pragma unroll
      for (int depth = 0; depth < kDepths; ++depth) {
        const uint32_t offset =
            depth / kRowDepths * tiling.row_bytes + depth % kRowDepths * kDepth * sizeof(T);
#pragma unroll
        for (int i = 0; i < kPair; ++i) {
          uint32_t windows[4];
          load_matrices(windows, address[i] + offset);
#pragma unroll
          for (int t = 0; t < kTiles; ++t) {
            multiply_add<T>(products[i][t], windows, weights.words[depth][t][0], weights.words[depth][t][1]);
          }
        }
      }
#pragma unroll
      for (int i = 0; i < kPair; ++i) {
        if (begin + i >= steps) break;
        const int pixel = column[i] * kStemStep + lane / 4;
        T* to = output + ((first_row + row[i]) * tiling.out_width + pixel) * kStemOutChannels +
                first_channel + lane % 4 * kThreadChannels;
        if (pixel < tiling.out_width) finish_pixel<T, 0>(products[i], to, sums);
        if (pixel + kStemStep / 2 < tiling.out_width) {
          finish_pixel<T, 1>(products[i], to + kStemStep / 2 * kStemOutChannels, sums);
        }
      }
    }
  }
  sums.leave(reinterpret_cast<float*>(shared), first_channel, pixel_warp,
             partials + blockIdx.x * kStemForwardPartials);
}

constexpr int kSlices = 8;
constexpr int kSumThreads = kSlices * static_cast<int>(kStemForwardPartials);

// In float64: a variance is the small difference of two of these.
__global__ void __launch_bounds__(kSumThreads)
    sum_kernel(const float* __restrict__ partials, unsigned blocks, float* __restrict__ sums) {
  __shared__ double slices[kSumThreads];
  const unsigned channel = threadIdx.x % kStemForwardPartials;
  double sum = 0.0;
#pragma unroll 8
  for (unsigned block = threadIdx.x / kStemForwardPartials; block < blocks; block += kSlices) {
    sum += static_cast<double>(partials[block * kStemForwardPartials + channel]);
  }
  slices[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x >= kStemForwardPartials) return;
  for (int slice = 1; slice < kSlices; ++slice) sum += slices[slice * kStemForwardPartials + channel];
  sums[channel] = static_cast<float>(sum);
}

}  // namespace

unsigned stem_conv_blocks(const StemConv& conv) {
  const int64_t most = int64_t{kStemBlocks} * conv.multiprocessors;
  const int64_t tiles = StemTiling(conv).tiles;
  return static_cast<unsigned>(tiles < most ? tiles : most);
}

bool has_stem_conv_code() {
  constexpr int kTensorCores = 80;
  cudaFuncAttributes attributes{};
  // What was compiled for an older GPU runs on a newer one as well, but without these instructions.
  const cudaError_t error = cudaFuncGetAttributes(&attributes, &forward_kernel<__half, float>);
  return error == cudaSuccess && attributes.ptxVersion >= kTensorCores;
}

cudaError_t launch_stem_conv_forward(const StemConv& conv, const StemForward& tensors, cudaStream_t stream) {
  const unsigned blocks = stem_conv_blocks(conv);
  if (blocks > 0) {
    const cudaError_t error = with_stem_types(conv, [&](auto types) {
      using T = typename decltype(types)::Compute;
      using In = typename decltype(types)::Input;
      const StemTiling tiling(conv);
      forward_kernel<T, In><<<blocks, kStemThreads, tiling.tile_bytes(), stream>>>(
          tiling, static_cast<const In*>(tensors.input), static_cast<const T*>(tensors.weight),
          static_cast<T*>(tensors.output), tensors.partials);
      return cudaGetLastError();
    });
    if (error != cudaSuccess) return error;
  }
  sum_kernel<<<1, kSumThreads, 0, stream>>>(tensors.partials, blocks, tensors.sums);
  return cudaGetLastError();
}

}  // namespace ampctl::kernels
