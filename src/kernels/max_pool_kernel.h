// The CUDA side of max pooling, free of LibTorch so that nvcc has little to read. C++17.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace ampctl::kernels {

enum class PoolType : uint8_t { float32, float16, bfloat16 };

/// Images in channels_last order: (images, height, width, channels), at most 2^30 elements each.
struct MaxPool {
  PoolType type;
  int64_t images;
  int channels;
  int height;
  int width;
  int pooled_height;
  int pooled_width;
  int kernel;  // 1 to 15
  int stride;
  int padding;
};

/// input to output and positions, both (images, pooled_height, pooled_width, channels).
cudaError_t launch_max_pool_forward(const MaxPool& pool, const void* input, void* output, uint8_t* positions,
                                    cudaStream_t stream);

/// grad_output and positions to grad_input, of which every element is written.
cudaError_t launch_max_pool_backward(const MaxPool& pool, const void* grad_output, const uint8_t* positions,
                                     void* grad_input, cudaStream_t stream);

}  // namespace ampctl::kernels
