#include <cuda_runtime.h>

#include "kernels/record_row_kernel.h"
#include "kernels/scalar_pointer.cuh"

namespace ampctl::kernels {
namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads) record_row_kernel(const RecordRow row) {
  const int64_t place = row.counts[0] % row.capacity;
  const int thread = static_cast<int>(threadIdx.x);
  double* columns = row.rows + place * (row.num_values + 1);
  if (thread < row.num_values) columns[thread] = read_scalar(row.values[thread]);
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
