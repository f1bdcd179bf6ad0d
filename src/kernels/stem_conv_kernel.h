// The CUDA side of the first convolution of residual networks, free of LibTorch so that nvcc has little to
// read. C++17.
//
// An implicit matrix product on tensor cores (mma.sync, compute capability 8.0 and later): an image's rows
// lie in shared memory as pixels of four 16-bit channels, the fourth zero, and the windows of neighbouring
// output pixels are overlapping pieces of these rows, so that ldmatrix reads them as rows of a matrix.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/stem_conv_geometry.h"

namespace ampctl::kernels {

enum class StemType : uint8_t { float32, float16, bfloat16 };

/// The window of an output pixel as the kernels multiply it: a row has a column more on the left and a
/// channel more than the convolution has, with weights of zero.
constexpr int kStemRowTaps = 32;
constexpr int kStemTaps = kStemKernel * kStemRowTaps;

/// Images whose input rows for one output row fit into the shared memory that kernels give them.
constexpr int kStemMaxWidth = 864;

/// Images (N, H, W, 3) of `input` to (N, H', W', 64) of `compute`, which is a 16-bit type. What is read is
/// rounded to it first.
struct StemConv {
  StemType input;
  StemType compute;
  int64_t images;
  int height;
  int width;            // at most kStemMaxWidth
  int multiprocessors;  // of the device
};

/// Blocks of either kernel; each leaves its partial sums, which a second kernel adds in their order.
unsigned stem_conv_blocks(const StemConv& conv);

/// Floats that the partial sums of a block take.
constexpr int64_t kStemForwardPartials = int64_t{2} * kStemOutChannels;
constexpr int64_t kStemWeightPartials = int64_t{kStemOutChannels} * kStemTaps;

/// True where the kernels have code for the current device.
bool has_stem_conv_code();

/// weight: (64, 7, 7, 3) of the compute type. sums: (2, 64) float32, the sums over all pixels of the rounded
/// outputs and of their squares. Output and partials begin at a multiple of 16 bytes.
struct StemForward {
  const void* input;
  const void* weight;
  void* output;
  float* partials;  // stem_conv_blocks * kStemForwardPartials
  float* sums;
};
cudaError_t launch_stem_conv_forward(const StemConv& conv, const StemForward& tensors, cudaStream_t stream);

/// grad_output: (N, H', W', 64) of the compute type, beginning at a multiple of 16 bytes, as partials do;
/// grad_weight: (64, 7, 7, 3) of it.
struct StemWeightGradient {
  const void* grad_output;
  const void* input;
  float* partials;  // stem_conv_blocks * kStemWeightPartials
  void* grad_weight;
};
cudaError_t launch_stem_conv_weight(const StemConv& conv, const StemWeightGradient& tensors,
                                    cudaStream_t stream);

}  // namespace ampctl::kernels
