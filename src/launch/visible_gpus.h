// The GPUs that CUDA would show a process, counted without loading CUDA.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launch/environment.h"

namespace ampctl::launch {

struct VisibleGpu {
  std::string bus_id;  ///< PCI address, such as "0000:65:00.0"; "" when the driver does not tell
};

/// In CUDA's order for equal GPUs, that of their PCI addresses. CUDA_VISIBLE_DEVICES counts as CUDA reads it
/// (CUDA Programming Guide, "CUDA Environment Variables"): numbers or beginnings of UUIDs, up to the first
/// that names no GPU; none when empty or when one is named twice. A MIG device counts as one GPU.
/// `root` stands in for "/" in tests.
[[nodiscard]] std::vector<VisibleGpu> visible_gpus(const Variables& variables,
                                                   const std::filesystem::path& root = "/");

}  // namespace ampctl::launch
