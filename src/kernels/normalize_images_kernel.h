// The CUDA side of normalize_images, free of LibTorch so that nvcc has little to read. C++17.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace ampctl::kernels {

enum class ImageType : uint8_t { float32, float16, bfloat16 };

struct NormalizeImages {
  const uint8_t* images;  // (n, plane, channels)
  const float* scale;     // (channels)
  const float* shift;     // (channels)
  void* out;              // (n, plane, channels) with channels_last, else (n, channels, plane)
  ImageType type;
  bool channels_last;
  int64_t n;
  int64_t plane;  // height * width
  int channels;   // 1 to 4
};

cudaError_t launch_normalize_images(const NormalizeImages& work, cudaStream_t stream);

}  // namespace ampctl::kernels
