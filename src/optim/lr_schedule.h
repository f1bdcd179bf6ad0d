// Learning-rate schedules as pure functions of the number of optimizer steps that really happened. The step
// reads its rate from a table on the device, so a skip never advances the schedule and nothing is read on the
// host.
#pragma once

#include <cstdint>
#include <vector>

#include "config/run_plan.h"

namespace ampctl::optim {

/// The rate used by the update that follows `steps_done` updates. Sources: PyTorch's LinearLR warm-up (factor
/// from warmup_start_factor to 1) followed by StepLR, MultiStepLR, ExponentialLR, PolynomialLR or
/// CosineAnnealingLR over the remaining steps.
double lr_at(const config::LrPlan& plan, int64_t steps_done);

/// lr_at for 0 .. total_steps (one entry more than steps, so that the last index is valid).
std::vector<float> lr_table(const config::LrPlan& plan);

}  // namespace ampctl::optim
