// The operator behind step_control_. Internal to kernels/.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>

#include <ATen/core/Tensor.h>

namespace ampctl::kernels {

/// (kDecisions) float32 and (kRecords) float64.
using StepOpResult = std::tuple<at::Tensor, at::Tensor>;
/// found_inf, norm, loss_sum, samples, planned_samples, lr_table, steps_done, windows, scale, growth_tracker,
/// growth_factor, backoff_factor, growth_interval, clip_grad_norm.
using StepOp = StepOpResult(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                            const std::optional<at::Tensor>&, double, const at::Tensor&, at::Tensor&,
                            at::Tensor&, const std::optional<at::Tensor>&, const std::optional<at::Tensor>&,
                            double, double, int64_t, std::optional<double>);

}  // namespace ampctl::kernels
