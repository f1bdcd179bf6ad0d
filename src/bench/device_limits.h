// What the device reaches at best, measured: the yardstick for what a step reaches.
#pragma once

#include <string>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace ampctl::bench {

struct DeviceLimits {
  double flops_per_second = 0.0;  ///< of a large square matrix product; 2 a multiply-add
  double bytes_per_second = 0.0;  ///< of a large copy, reads and writes counted
  std::string product;            ///< "8192 x 8192 x 8192 float16"
  std::string copy;               ///< "1.0 GiB"
};

/// Takes a few hundredths of a second on a GPU, some tenths on a CPU. `dtype`: what matrices are multiplied
/// in (float32 follows the process's TF32 setting). Throws what the allocator throws when the device is full.
[[nodiscard]] DeviceLimits measure_limits(c10::Device device, c10::ScalarType dtype);

}  // namespace ampctl::bench
