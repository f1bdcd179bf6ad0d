#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/grad_stats_kernel.h"
#include "kernels/tensor_of_block.cuh"

namespace ampctl::kernels {
namespace {

constexpr int kChunkThreads = 512;
constexpr int kFinishThreads = 1024;
constexpr int kWarp = 32;
constexpr int kVectorBytes = 16;

__device__ double to_double(double value) { return value; }
__device__ double to_double(float value) { return value; }
__device__ double to_double(__half value) { return __half2float(value); }
__device__ double to_double(__nv_bfloat16 value) { return __bfloat162float(value); }

struct Stats {
  double sum = 0.0;
  bool nonfinite = false;
};

template <typename T>
__device__ void add(Stats& stats, T raw) {
  const double value = to_double(raw);
  // A float64 may be finite while its square is not; of narrower types the sum alone tells (see chunk_stats).
  if (sizeof(T) == sizeof(double)) stats.nonfinite = stats.nonfinite || !isfinite(value);
  stats.sum += value * value;
}

template <typename T>
struct alignas(kVectorBytes) Vector {
  T values[kVectorBytes / sizeof(T)];
};

template <typename T>
__device__ Stats chunk_stats(const T* data, int64_t numel) {
  constexpr int kWidth = kVectorBytes / sizeof(T);
  Stats stats;
  int64_t vectorised = 0;
  if (reinterpret_cast<uintptr_t>(data) % kVectorBytes == 0) {
    const int64_t vectors = numel / kWidth;
    const auto* source = reinterpret_cast<const Vector<T>*>(data);
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < vectors; i += kChunkThreads) {
      const Vector<T> vector = source[i];
#pragma unroll
      for (int j = 0; j < kWidth; ++j) add(stats, vector.values[j]);
    }
    vectorised = vectors * kWidth;
  }
  for (int64_t i = vectorised + threadIdx.x; i < numel; i += kChunkThreads) add(stats, data[i]);
  if (sizeof(T) != sizeof(double)) stats.nonfinite = !isfinite(stats.sum);
  return stats;
}

// The warp's sum and flag in its first lane, always in the same order.
__device__ Stats warp_reduce(Stats stats) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    stats.sum += __shfl_down_sync(0xffffffffU, stats.sum, offset);
  }
  stats.nonfinite = __any_sync(0xffffffffU, stats.nonfinite) != 0;
  return stats;
}

// The block's sum in thread 0, always in the same order; the flag in every thread.
template <int kThreads>
__device__ Stats block_reduce(Stats stats) {
  __shared__ double warp_sums[kThreads / kWarp];
  stats = warp_reduce(stats);
  if (threadIdx.x % kWarp == 0) warp_sums[threadIdx.x / kWarp] = stats.sum;
  stats.nonfinite = __syncthreads_or(stats.nonfinite) != 0;
  if (threadIdx.x == 0) {
    double sum = 0.0;
    for (int i = 0; i < kThreads / kWarp; ++i) sum += warp_sums[i];
    stats.sum = sum;
  }
  return stats;
}

template <typename T>
__device__ Stats tensor_chunk_stats(const void* data, int64_t begin, int64_t numel) {
  return chunk_stats(static_cast<const T*>(data) + begin, numel);
}

__global__ void __launch_bounds__(kChunkThreads)
    chunks_kernel(const __grid_constant__ GradStatsTensors tensors, double* partial_sums,
                  uint8_t* partial_flags) {
  const GradStatsTensor& tensor = tensor_of_block(tensors);
  const int64_t begin = (static_cast<int64_t>(blockIdx.x) - tensor.first_block) * kGradStatsChunk;
  const int64_t left = tensor.numel - begin;
  const int64_t numel = left < kGradStatsChunk ? left : kGradStatsChunk;
  Stats stats;
  switch (tensor.type) {
    case GradType::float16:
      stats = tensor_chunk_stats<__half>(tensor.data, begin, numel);
      break;
    case GradType::bfloat16:
      stats = tensor_chunk_stats<__nv_bfloat16>(tensor.data, begin, numel);
      break;
    case GradType::float32:
      stats = tensor_chunk_stats<float>(tensor.data, begin, numel);
      break;
    case GradType::float64:
      stats = tensor_chunk_stats<double>(tensor.data, begin, numel);
      break;
  }
  stats = block_reduce<kChunkThreads>(stats);
  if (threadIdx.x == 0) {
    partial_sums[blockIdx.x] = stats.sum;
    partial_flags[blockIdx.x] = stats.nonfinite ? 1 : 0;
  }
}

// One warp a tensor.
__device__ void finish_tensor(const GradStatsPartials& partials, int tensor,
                              const GradStatsResults& results) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  Stats stats;
  for (int i = partials.begin[tensor] + lane; i < partials.begin[tensor + 1]; i += kWarp) {
    stats.sum += partials.sums[i];
    stats.nonfinite = stats.nonfinite || partials.flags[i] != 0;
  }
  stats = warp_reduce(stats);
  if (lane != 0) return;
  results.nonfinite[partials.first + tensor] = stats.nonfinite ? 1 : 0;
  results.sum_squares[partials.first + tensor] = stats.sum;
}

__global__ void __launch_bounds__(kFinishThreads)
    finish_kernel(const __grid_constant__ GradStatsPartials partials, const GradStatsResults results) {
  const int thread = static_cast<int>(threadIdx.x);
  for (int tensor = thread / kWarp; tensor < partials.count; tensor += kFinishThreads / kWarp) {
    finish_tensor(partials, tensor, results);
  }
  if (partials.first + partials.count != results.tensors) return;
  __syncthreads();
  Stats total;
  for (int i = thread; i < results.tensors; i += kFinishThreads) {
    total.sum += results.sum_squares[i];
    total.nonfinite = total.nonfinite || results.nonfinite[i] != 0;
  }
  total = block_reduce<kFinishThreads>(total);
  if (thread == 0) {
    *results.found_inf = total.nonfinite ? 1.0F : 0.0F;
    *results.norm = sqrt(total.sum);
  }
}

}  // namespace

cudaError_t launch_grad_stats_chunks(const GradStatsTensors& tensors, double* partial_sums,
                                     uint8_t* partial_flags, cudaStream_t stream) {
  chunks_kernel<<<tensors.blocks, kChunkThreads, 0, stream>>>(tensors, partial_sums, partial_flags);
  return cudaGetLastError();
}

cudaError_t launch_grad_stats_finish(const GradStatsPartials& partials, const GradStatsResults& results,
                                     cudaStream_t stream) {
  finish_kernel<<<1, kFinishThreads, 0, stream>>>(partials, results);
  return cudaGetLastError();
}

}  // namespace ampctl::kernels
