// The CUDA side of global average pooling, free of LibTorch so that nvcc has little to read. C++17.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace ampctl::kernels {

enum class MeanType : uint8_t { float32, float16, bfloat16 };

/// Images in channels_last order: (images, pixels, channels), at most 2^30 elements each.
struct ChannelMeans {
  MeanType type;
  int64_t images;
  int pixels;  // at least 1
  int channels;
};

/// input to means (images, channels).
cudaError_t launch_channel_means(const ChannelMeans& shape, const void* input, void* means,
                                 cudaStream_t stream);

/// grad_means (images, channels) to grad_input, of which every element is written.
cudaError_t launch_channel_means_backward(const ChannelMeans& shape, const void* grad_means, void* grad_input,
                                          cudaStream_t stream);

}  // namespace ampctl::kernels
