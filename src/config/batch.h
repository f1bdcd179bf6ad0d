// micro-batch x accumulation x processes = global batch: any two of the batch settings give the third.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/experiment_config.h"

namespace ampctl::config {

struct BatchPlan {
  int64_t micro = 0;  ///< samples a process and forward pass
  int64_t accumulation = 1;
  int64_t global = 0;  ///< samples an optimizer step
};

/// Accumulation is 1 where neither it nor both batch sizes are given. What does not fit is added to
/// `problems`, with the arithmetic; the plan is then all zeros.
BatchPlan resolve_batch(const ExperimentConfig& config, int64_t world_size,
                        std::vector<std::string>& problems);

}  // namespace ampctl::config
