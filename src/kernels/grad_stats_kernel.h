// The CUDA side of grad_stats, free of LibTorch so that nvcc has little to read. C++17.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace ampctl::kernels {

enum class GradType : uint8_t { float16, bfloat16, float32, float64 };

constexpr int kGradStatsChunk = 65536;  // elements that one block sums up
constexpr int kGradStatsTensors = 110;  // a launch; with the blocks below its arguments stay under 4 KiB
constexpr int kGradStatsBlocks = 320;   // a launch
constexpr int kGradStatsFinish = 896;   // tensors that one finishing launch takes

/// Which chunk of which tensor each block of one launch reads.
struct GradStatsChunks {
  const void* data[kGradStatsTensors];
  int64_t numel[kGradStatsTensors];
  GradType type[kGradStatsTensors];
  uint8_t block_tensor[kGradStatsBlocks];
  int32_t block_chunk[kGradStatsBlocks];
  int32_t blocks;
};
static_assert(sizeof(GradStatsChunks) + 2 * sizeof(void*) <= 4096,
              "arguments of a kernel are limited to 4 KiB");

/// Block i writes its chunk's sum of squares and flag to partial_sums[i] and partial_flags[i].
cudaError_t launch_grad_stats_chunks(const GradStatsChunks& chunks, double* partial_sums,
                                     uint8_t* partial_flags, cudaStream_t stream);

/// The partials of tensor i of one launch are [begin[i], begin[i + 1]).
struct GradStatsTensors {
  int32_t begin[kGradStatsFinish + 1];
  int32_t tensors;
};

/// Sums up partials in a fixed order; sums are multiplied by *inv_scale squared where that is given.
cudaError_t launch_grad_stats_finish(const GradStatsTensors& tensors, const double* partial_sums,
                                     const uint8_t* partial_flags, const float* inv_scale, uint8_t* nonfinite,
                                     double* sum_squares, cudaStream_t stream);

}  // namespace ampctl::kernels
