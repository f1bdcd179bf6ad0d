#include <cuda_runtime.h>

#include "kernels/record_row_kernel.h"

namespace ampctl::kernels {
namespace {

constexpr int kThreads = 128;

__device__ double read(const void* value, ValueType type) {
  switch (type) {
    case ValueType::float64:
      return *static_cast<const double*>(value);
    case ValueType::float32:
      return *static_cast<const float*>(value);
    case ValueType::int64:
      return static_cast<double>(*static_cast<const int64_t*>(value));
    case ValueType::int32:
      return *static_cast<const int32_t*>(value);
    case ValueType::boolean:
      return *static_cast<const bool*>(value) ? 1.0 : 0.0;
  }
  return 0.0;
}

__global__ void __launch_bounds__(kThreads) record_row_kernel(const RecordRow row) {
  const int64_t place = row.counts[0] % row.capacity;
  const int thread = static_cast<int>(threadIdx.x);
  double* columns = row.rows + place * (row.num_values + 1);
  if (thread < row.num_values) columns[thread] = read(row.values[thread], row.types[thread]);
  if (thread == row.num_values) columns[thread] = row.last;
  uint8_t* flags = row.flags + place * row.num_flags;
  for (int64_t i = thread; i < row.num_flags; i += kThreads) flags[i] = row.nonfinite[i];
  __syncthreads();
  if (thread == 0) row.counts[0] += 1;
}

}  // namespace

cudaError_t launch_record_row(const RecordRow& row, cudaStream_t stream) {
  record_row_kernel<<<1, kThreads, 0, stream>>>(row);
  return cudaGetLastError();
}

}  // namespace ampctl::kernels
