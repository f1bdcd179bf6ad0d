#include "cuda_device.h"

namespace ampctl::worker {

std::string cuda_device_name(c10::Device device) { return "CUDA GPU " + std::to_string(device.index()); }

}  // namespace ampctl::worker
