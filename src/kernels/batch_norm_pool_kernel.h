// The CUDA side of batch norm, ReLU and max pooling in one, free of LibTorch. C++17.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/batch_norm_kernel.h"

namespace ampctl::kernels {

/// Images in channels_last order, pooled in windows of 3 by 3 with stride 2 and padding 1.
struct BatchNormPoolShape {
  BatchNormShape norm;  // rows are images * height * width
  unsigned images;
  int height;
  int width;
  int pooled_height;
  int pooled_width;
};

/// Stands for a maximum that ReLU made zero, which has no gradient.
constexpr unsigned kNoPosition = 255;

/// input to output and positions, row * 3 + column in the window or kNoPosition, a byte a channel.
cudaError_t launch_batch_norm_pool_apply(const BatchNormPoolShape& shape, const void* input, void* output,
                                         uint8_t* positions, const BatchNormChannels& channels,
                                         cudaStream_t stream);

/// grad_second may be null.
struct BatchNormPoolBackward {
  const void* grad_output;
  const void* grad_second;
  const void* input;
  const uint8_t* positions;
  void* grad_input;
  float* grad_weight;
  float* grad_bias;
};
cudaError_t launch_batch_norm_pool_backward(const BatchNormPoolShape& shape,
                                            const BatchNormPoolBackward& tensors,
                                            const BatchNormChannels& channels,
                                            const BatchNormScratch& scratch, cudaStream_t stream);

}  // namespace ampctl::kernels
