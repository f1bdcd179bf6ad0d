#include "cuda_device.h"

#include <cuda_runtime_api.h>

namespace ampctl::worker {

std::string cuda_device_name(c10::Device device) {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, device.index()) != cudaSuccess) return "CUDA GPU";
  return properties.name;
}

}  // namespace ampctl::worker
