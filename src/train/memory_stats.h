// The caching allocator's figures for a device, and what to try when it ran out.
#pragma once

#include <cstdint>
#include <string>

#include <c10/core/Device.h>

#include "config/run_plan.h"

namespace ampctl::train {

struct MemoryStats {
  double max_allocated_gib = 0.0;  ///< 0 on the CPU
  double max_reserved_gib = 0.0;
};
MemoryStats memory_stats(c10::Device device);

/// For an out-of-memory error: the peak, and which batch and accumulation to try.
std::string out_of_memory_advice(const config::RunPlan& plan, const MemoryStats& stats,
                                 const std::string& what);

}  // namespace ampctl::train
