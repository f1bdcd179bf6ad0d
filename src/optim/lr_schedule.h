// Learning-rate schedules as pure functions of the number of optimizer steps that really happened. The step
// reads its rate from a table on the device, so a skip never advances the schedule and nothing is read on the
// host.
#pragma once

#include <cstdint>
#include <vector>

#include "config/run_plan.h"

namespace ampctl::optim {

/// The rate used by the update that follows `steps_done` updates. Updates past total_steps keep the last
/// rate.
///
/// Warm-up (PyTorch's LinearLR): updates 0 … warmup_steps - 1 rise linearly from warmup_start_factor *
/// base_lr; update warmup_steps is the first at the main schedule's rate. Then, with s = steps_done:
/// - constant: base_lr;
/// - step (StepLR), multi_step (MultiStepLR): base_lr * gamma^(s / step_size), or gamma to the number of
///   milestones <= s. Both count from the run's start, warm-up included, so that `milestones_epochs: [30,
///   60]` names epochs of the run (Goyal et al. 2017, timm);
/// - the rest run over the steps that remain after warm-up, as after PyTorch's SequentialLR, t = s -
/// warmup_steps
///   of T = total_steps - warmup_steps:
///   exponential (ExponentialLR, once an epoch): base_lr * gamma^floor(t / steps_per_epoch);
///   polynomial (PolynomialLR, which ends at 0): min_lr + (base_lr - min_lr) * (1 - t/T)^power;
///   cosine (CosineAnnealingLR): min_lr + (base_lr - min_lr) * (1 + cos(pi * t/T)) / 2.
///
/// Throws a usage error for an unknown name, and for a step schedule without step size or an exponential one
/// without epoch length.
double lr_at(const config::LrPlan& plan, int64_t steps_done);

/// lr_at for 0 .. total_steps (one entry more than steps, so that the last index is valid).
std::vector<float> lr_table(const config::LrPlan& plan);

}  // namespace ampctl::optim
