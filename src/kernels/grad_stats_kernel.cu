#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/grad_stats_kernel.h"

namespace ampctl::kernels {
namespace {

constexpr int kChunkThreads = 512;
constexpr int kFinishThreads = 128;
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

// The block's sum in thread 0, always in the same order; the flag in every thread.
template <int kThreads>
__device__ Stats block_reduce(Stats stats) {
  __shared__ double warp_sums[kThreads / kWarp];
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    stats.sum += __shfl_down_sync(0xffffffffU, stats.sum, offset);
  }
  if (lane == 0) warp_sums[warp] = stats.sum;
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
    chunks_kernel(const GradStatsChunks chunks, double* partial_sums, uint8_t* partial_flags) {
  const int tensor = chunks.block_tensor[blockIdx.x];
  const int64_t begin = static_cast<int64_t>(chunks.block_chunk[blockIdx.x]) * kGradStatsChunk;
  const int64_t left = chunks.numel[tensor] - begin;
  const int64_t numel = left < kGradStatsChunk ? left : kGradStatsChunk;
  const void* data = chunks.data[tensor];
  Stats stats;
  switch (chunks.type[tensor]) {
    case GradType::float16:
      stats = tensor_chunk_stats<__half>(data, begin, numel);
      break;
    case GradType::bfloat16:
      stats = tensor_chunk_stats<__nv_bfloat16>(data, begin, numel);
      break;
    case GradType::float32:
      stats = tensor_chunk_stats<float>(data, begin, numel);
      break;
    case GradType::float64:
      stats = tensor_chunk_stats<double>(data, begin, numel);
      break;
  }
  stats = block_reduce<kChunkThreads>(stats);
  if (threadIdx.x == 0) {
    partial_sums[blockIdx.x] = stats.sum;
    partial_flags[blockIdx.x] = stats.nonfinite ? 1 : 0;
  }
}

__global__ void __launch_bounds__(kFinishThreads)
    finish_kernel(const GradStatsTensors tensors, const double* partial_sums, const uint8_t* partial_flags,
                  const float* inv_scale, uint8_t* nonfinite, double* sum_squares) {
  Stats stats;
  const int end = tensors.begin[blockIdx.x + 1];
  for (int i = tensors.begin[blockIdx.x] + static_cast<int>(threadIdx.x); i < end; i += kFinishThreads) {
    stats.sum += partial_sums[i];
    stats.nonfinite = stats.nonfinite || partial_flags[i] != 0;
  }
  stats = block_reduce<kFinishThreads>(stats);
  if (threadIdx.x == 0) {
    const double factor = inv_scale == nullptr ? 1.0 : static_cast<double>(*inv_scale);
    nonfinite[blockIdx.x] = stats.nonfinite ? 1 : 0;
    sum_squares[blockIdx.x] = stats.sum * (factor * factor);
  }
}

}  // namespace

cudaError_t launch_grad_stats_chunks(const GradStatsChunks& chunks, double* partial_sums,
                                     uint8_t* partial_flags, cudaStream_t stream) {
  chunks_kernel<<<chunks.blocks, kChunkThreads, 0, stream>>>(chunks, partial_sums, partial_flags);
  return cudaGetLastError();
}

cudaError_t launch_grad_stats_finish(const GradStatsTensors& tensors, const double* partial_sums,
                                     const uint8_t* partial_flags, const float* inv_scale, uint8_t* nonfinite,
                                     double* sum_squares, cudaStream_t stream) {
  finish_kernel<<<tensors.tensors, kFinishThreads, 0, stream>>>(tensors, partial_sums, partial_flags,
                                                                inv_scale, nonfinite, sum_squares);
  return cudaGetLastError();
}

}  // namespace ampctl::kernels
