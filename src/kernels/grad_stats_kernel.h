// The CUDA side of grad_stats, free of LibTorch so that nvcc has little to read. C++17.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/launch_limits.h"

namespace ampctl::kernels {

enum class GradType : uint8_t { float16, bfloat16, float32, float64 };

constexpr int kGradStatsChunk = 32768;  // elements that one block sums up
constexpr int kGradStatsTensors = 512;  // a launch
constexpr int kGradStatsFinish = 2048;  // tensors that one finishing launch takes

struct GradStatsTensor {
  const void* data;
  int64_t numel;
  int32_t first_block;  // of the launch; the tensor's chunks are those up to the next tensor's first
  GradType type;
};

/// Consecutive tensors; empty ones have no chunk.
struct GradStatsTensors {
  GradStatsTensor tensors[kGradStatsTensors];
  int32_t count;
  int32_t blocks;
};
static_assert(sizeof(GradStatsTensors) + 2 * sizeof(void*) <= kMaxKernelArguments,
              "the arguments of grad_stats do not fit into a launch");

/// Block i writes its chunk's sum of squares and flag to partial_sums[i] and partial_flags[i].
cudaError_t launch_grad_stats_chunks(const GradStatsTensors& tensors, double* partial_sums,
                                     uint8_t* partial_flags, cudaStream_t stream);

/// Tensors [first, first + count) of all; the partials of tensor first + i are [begin[i], begin[i + 1]).
struct GradStatsPartials {
  int32_t begin[kGradStatsFinish + 1];
  int32_t first;
  int32_t count;
  const double* sums;
  const uint8_t* flags;
};

/// Over all tensors; what is the whole's is written by the launch of the last ones.
struct GradStatsResults {
  uint8_t* nonfinite;
  double* sum_squares;
  float* found_inf;
  double* norm;
  int32_t tensors;
};
static_assert(sizeof(GradStatsPartials) + sizeof(GradStatsResults) <= kMaxKernelArguments,
              "the arguments of grad_stats' end do not fit into a launch");

/// Sums up partials in a fixed order. Launches follow one another in the order of their tensors.
cudaError_t launch_grad_stats_finish(const GradStatsPartials& partials, const GradStatsResults& results,
                                     cudaStream_t stream);

}  // namespace ampctl::kernels
