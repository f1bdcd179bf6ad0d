// What needs CUDA's own headers; built from cuda_device.cpp, or from no_cuda_device.cpp without CUDA.
#pragma once

#include <string>

#include <c10/core/Device.h>

namespace ampctl::worker {

std::string cuda_device_name(c10::Device device);

}  // namespace ampctl::worker
