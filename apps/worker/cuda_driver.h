// GPUs as the NVIDIA driver describes them. The driver's library is opened at run time, so this works on
// machines without one and in builds without CUDA.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ampctl::worker {

struct DriverGpu {
  std::string name;
  int compute_capability_major = 0;
  int compute_capability_minor = 0;
  uint64_t total_memory_bytes = 0;
  int64_t multiprocessors = 0;
};

struct CudaDriver {
  std::optional<int> cuda_version;   ///< newest CUDA supported, as 1000 * major + 10 * minor
  std::vector<DriverGpu> gpus;       ///< in CUDA's order, as CUDA_VISIBLE_DEVICES leaves them
  std::optional<std::string> error;  ///< why there are none
};

/// Never throws for what the driver lacks or refuses.
[[nodiscard]] CudaDriver read_cuda_driver();

}  // namespace ampctl::worker
