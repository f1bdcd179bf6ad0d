// What a training step decides on the device once its gradients are known: whether it is skipped, by what
// gradients are divided, the learning rate; and what follows for the next one: the loss scale and the
// counters. Registered with PyTorch's dispatcher as ampctl::step_control_ (schema in step_control.cpp).
#pragma once

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

namespace ampctl::kernels {

/// What one step leaves for the next; all on one device.
struct StepState {
  at::Tensor lr_table;        ///< (n) float32: the rate after k updates at index k; read only
  at::Tensor steps_done;      ///< 0-dim int64: updates that happened
  at::Tensor windows;         ///< 0-dim int64: steps attempted
  at::Tensor scale;           ///< 0-dim float32; undefined: gradients are not scaled
  at::Tensor growth_tracker;  ///< 0-dim int32; undefined with `scale`
};

/// What is known of a step; 0-dim tensors of any number type on the state's device.
struct StepFindings {
  at::Tensor found_inf;          ///< not 0: a gradient is not finite (a count over ranks will do)
  at::Tensor norm;               ///< of the gradients as they stand, scaled (GradStats::norm)
  at::Tensor loss_sum;           ///< as the step's weights made it
  at::Tensor samples;            ///< undefined, or samples there were, when gradients were weighted by
  double planned_samples = 1.0;  ///< the samples planned: norm, loss and gradients are corrected by the ratio
};

/// The scaler's rule and torch.nn.utils.clip_grad_norm_'s.
struct StepRules {
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;
  std::optional<double> clip_grad_norm = std::nullopt;  ///< max_norm of unscaled gradients
};

/// 0-dim tensors, views of two fresh ones.
struct StepDecisions {
  // float32, for the optimizer
  at::Tensor found_inf;   ///< 0 or 1
  at::Tensor grad_scale;  ///< scale * samples / planned_samples / min(1, max_norm / (norm + 1e-6))
  at::Tensor lr;          ///< lr_table[steps_done]
  at::Tensor step;        ///< steps_done + 1
  // float64, for the records
  at::Tensor norm;            ///< unscaled, before clipping
  at::Tensor loss_sum;        ///< corrected
  at::Tensor scale;           ///< before its update; 1 without one
  at::Tensor growth_tracker;  ///< before its update; 0 without one
  at::Tensor window;          ///< steps attempted before this one
};

/// Decides, then advances the state: scale and growth tracker by the rule of torch._amp_update_scale_ (a
/// scale that would grow to infinity stays), steps_done by 1 unless skipped, windows by 1. Nothing is read on
/// the host. On CUDA one kernel; steps_done must be an index of lr_table, or the kernel traps.
StepDecisions step_control_(const StepState& state, const StepFindings& findings, const StepRules& rules);

/// The same from stock ATen operators.
StepDecisions step_control_reference_(const StepState& state, const StepFindings& findings,
                                      const StepRules& rules);

}  // namespace ampctl::kernels
