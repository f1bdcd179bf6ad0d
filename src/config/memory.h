// What a run keeps on its device, estimated from the architecture.
#pragma once

#include <cstdint>

#include "config/run_plan.h"

namespace ampctl::config {

/// Bytes a process. Left out: cuDNN's workspaces, the allocator's rounding, the CUDA context.
struct MemoryEstimate {
  int64_t weights = 0;  ///< parameters and running statistics, float32
  int64_t gradients = 0;
  int64_t optimizer = 0;
  int64_t casts = 0;        ///< low-precision copies of the weights under autocast
  int64_t activations = 0;  ///< of one micro-batch
  [[nodiscard]] int64_t total() const { return weights + gradients + optimizer + casts + activations; }
};

MemoryEstimate estimate_memory(const RunPlan& plan);

}  // namespace ampctl::config
