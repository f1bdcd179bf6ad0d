// The CUDA side of record_row_, free of LibTorch. C++17.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/scalar_pointer.h"

namespace ampctl::kernels {

constexpr int kRecordValues = 16;

struct RecordRow {
  double* rows;
  uint8_t* flags;
  int64_t* counts;
  const uint8_t* nonfinite;
  int64_t capacity;
  int64_t num_flags;
  ScalarPointer values[kRecordValues];
  int num_values;
  double last;
};

cudaError_t launch_record_row(const RecordRow& row, cudaStream_t stream);

}  // namespace ampctl::kernels
