// The CUDA side of softmax cross-entropy, free of LibTorch so that nvcc has little to read. C++17.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace ampctl::kernels {

enum class LogitsType : uint8_t { float32, float16, bfloat16 };

struct CrossEntropyRows {
  LogitsType type;
  const void* logits;      // (rows, classes), contiguous
  const int64_t* targets;  // (rows): in [0, classes) or ignore_index; others are a device-side assertion
  int64_t rows;            // at most 2^31 - 1
  int classes;             // at least 1
  int64_t ignore_index;
  float label_smoothing;
};

/// losses (rows); normalizers (rows, 2): of each row the largest logit, and the logarithm of the sum of
/// exp(logit - largest). Rows with ignore_index are not read: 0 everywhere.
cudaError_t launch_cross_entropy_forward(const CrossEntropyRows& rows, float* losses, float* normalizers,
                                         cudaStream_t stream);

/// grad_output (1) and normalizers to grad_logits, of the logits' type and shape; every element is written.
cudaError_t launch_cross_entropy_backward(const CrossEntropyRows& rows, const float* grad_output,
                                          const float* normalizers, void* grad_logits, cudaStream_t stream);

}  // namespace ampctl::kernels
