#include "kernels/step_control.h"

#include <tuple>
#include <utility>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <torch/library.h>

#include "base/error.h"
#include "kernels/maybe_tensor.h"
#include "kernels/step_control_op.h"
#include "kernels/step_control_places.h"

namespace ampctl::kernels {
namespace {

void check(const StepState& state) {
  const auto is = [](const at::Tensor& tensor, int64_t dim, at::ScalarType dtype) {
    return tensor.defined() && tensor.dim() == dim && tensor.scalar_type() == dtype && tensor.is_contiguous();
  };
  const bool is_good = is(state.lr_table, 1, at::kFloat) && is(state.steps_done, 0, at::kLong) &&
                       is(state.windows, 0, at::kLong);
  const bool is_scaler_good = state.scale.defined()
                                  ? is(state.scale, 0, at::kFloat) && is(state.growth_tracker, 0, at::kInt)
                                  : !state.growth_tracker.defined();
  if (is_good && is_scaler_good) return;
  throw Error(ErrorKind::internal,
              "step_control_ takes lr_table (n) float32, steps_done and windows 0-dim int64, and either both "
              "of scale 0-dim float32 and growth_tracker 0-dim int32 or neither");
}

StepOpResult composition(const at::Tensor& found_inf, const at::Tensor& norm, const at::Tensor& loss_sum,
                         const std::optional<at::Tensor>& samples, double planned_samples,
                         const at::Tensor& lr_table, at::Tensor& steps_done, at::Tensor& windows,
                         const std::optional<at::Tensor>& scale,
                         const std::optional<at::Tensor>& growth_tracker, double growth_factor,
                         double backoff_factor, int64_t growth_interval,
                         std::optional<double> clip_grad_norm) {
  const auto doubles = lr_table.options().dtype(at::kDouble);
  const at::Tensor skip = found_inf.ne(0).to(at::kFloat);
  const at::Tensor one = at::ones({}, doubles);
  const at::Tensor old_scale = scale ? scale->to(at::kDouble) : one;
  // A number would make CUDA multiply by its reciprocal, which rounds twice.
  const at::Tensor planned = at::full({}, planned_samples, doubles);
  const at::Tensor ratio = samples ? samples->to(at::kDouble).clamp_min(1.0).div(planned) : one;
  const at::Tensor unscaled_norm = norm.to(at::kDouble).div(old_scale).div(ratio);
  at::Tensor grad_scale = old_scale.to(at::kFloat).mul(ratio.to(at::kFloat));
  if (clip_grad_norm) {
    const at::Tensor coefficient = unscaled_norm.add(kClipEpsilon).reciprocal().mul(*clip_grad_norm);
    grad_scale = grad_scale.div(coefficient.clamp_max(1.0).to(at::kFloat));
  }
  const at::Tensor lr = lr_table.index_select(0, steps_done.unsqueeze(0)).squeeze(0);
  const at::Tensor decisions = at::stack({skip, grad_scale, lr, steps_done.add(1).to(at::kFloat)});
  const at::Tensor tracker = growth_tracker ? growth_tracker->to(at::kDouble) : at::full({}, 0.0, doubles);
  const at::Tensor records = at::stack(
      {unscaled_norm, loss_sum.to(at::kDouble).div(ratio), old_scale, tracker, windows.to(at::kDouble)});
  if (scale) {
    at::Tensor next_scale = *scale;
    at::Tensor next_tracker = *growth_tracker;
    at::_amp_update_scale_(next_scale, next_tracker, skip, growth_factor, backoff_factor, growth_interval);
  }
  steps_done.add_(skip.eq(0));
  windows.add_(1);
  return {decisions, records};
}

StepDecisions to_decisions(const StepOpResult& result) {
  const auto& [decisions, records] = result;
  return {decisions.select(0, kFoundInf), decisions.select(0, kGradScale),   decisions.select(0, kLr),
          decisions.select(0, kStep),     records.select(0, kNorm),          records.select(0, kLossSum),
          records.select(0, kScale),      records.select(0, kGrowthTracker), records.select(0, kWindow)};
}

}  // namespace

StepDecisions step_control_(const StepState& state, const StepFindings& findings, const StepRules& rules) {
  check(state);
  const at::NoGradGuard no_grad;
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ampctl::step_control_", "").typed<StepOp>();
  at::Tensor steps_done = state.steps_done;
  at::Tensor windows = state.windows;
  return to_decisions(op.call(findings.found_inf, findings.norm, findings.loss_sum, maybe(findings.samples),
                              findings.planned_samples, state.lr_table, steps_done, windows,
                              maybe(state.scale), maybe(state.growth_tracker), rules.growth_factor,
                              rules.backoff_factor, rules.growth_interval, rules.clip_grad_norm));
}

StepDecisions step_control_reference_(const StepState& state, const StepFindings& findings,
                                      const StepRules& rules) {
  check(state);
  const at::NoGradGuard no_grad;
  at::Tensor steps_done = state.steps_done;
  at::Tensor windows = state.windows;
  return to_decisions(composition(
      findings.found_inf, findings.norm, findings.loss_sum, maybe(findings.samples), findings.planned_samples,
      state.lr_table, steps_done, windows, maybe(state.scale), maybe(state.growth_tracker),
      rules.growth_factor, rules.backoff_factor, rules.growth_interval, rules.clip_grad_norm));
}

TORCH_LIBRARY_FRAGMENT(ampctl, library) {
  library.def(
      "step_control_(Tensor found_inf, Tensor norm, Tensor loss_sum, Tensor? samples, float planned_samples, "
      "Tensor lr_table, Tensor(a!) steps_done, Tensor(b!) windows, Tensor(c!)? scale, "
      "Tensor(d!)? growth_tracker, float growth_factor, float backoff_factor, int growth_interval, "
      "float? clip_grad_norm) -> (Tensor decisions, Tensor records)");
}

TORCH_LIBRARY_IMPL(ampctl, CPU, library) { library.impl("step_control_", &composition); }

#ifndef AMPCTL_WITH_CUDA
TORCH_LIBRARY_IMPL(ampctl, CUDA, library) { library.impl("step_control_", &composition); }
#endif

}  // namespace ampctl::kernels
