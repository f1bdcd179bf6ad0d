#include "kernels/step_control.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include "base/error.h"
#include "support/devices.h"

#ifdef AMPCTL_WITH_CUDA
#include "support/captured.h"
#include "support/no_sync.h"
#endif

using namespace ampctl;
using kernels::StepDecisions;
using kernels::StepFindings;
using kernels::StepRules;
using kernels::StepState;

namespace {

at::Tensor scalar(double value, c10::Device device, at::ScalarType dtype) {
  return at::full({}, value, at::TensorOptions(device).dtype(dtype));
}

StepState fresh_state(c10::Device device, double scale = 1024.0) {
  return {at::arange(100, at::TensorOptions(device).dtype(at::kFloat)).div(64.0).add(0.5),
          scalar(0, device, at::kLong), scalar(0, device, at::kLong), scalar(scale, device, at::kFloat),
          scalar(0, device, at::kInt)};
}

StepFindings findings(c10::Device device, bool found_inf, double norm = 2048.0) {
  return {scalar(found_inf ? 1.0 : 0.0, device, at::kFloat),
          scalar(norm, device, at::kDouble),
          scalar(3.0, device, at::kFloat),
          {},
          1.0};
}

double value(const at::Tensor& tensor) { return tensor.item<double>(); }

// Source of the rule: torch/amp/grad_scaler.py and torch._amp_update_scale_.
void check_the_scalers_rule(c10::Device device) {
  const StepState state = fresh_state(device);
  const StepRules rules{.growth_factor = 4.0, .backoff_factor = 0.25, .growth_interval = 3};
  const std::vector<bool> skips{false, false, true, false, false, false, false, true, true};
  const std::vector<double> scales{1024, 1024, 256, 256, 256, 1024, 1024, 256, 64};
  const std::vector<double> trackers{1, 2, 0, 1, 2, 0, 1, 0, 0};
  int64_t done = 0;
  double scale = 1024.0;
  double tracker = 0.0;
  for (size_t i = 0; i < skips.size(); ++i) {
    INFO("step " << i);
    const StepDecisions decisions = kernels::step_control_(state, findings(device, skips[i]), rules);
    CHECK(value(decisions.found_inf) == (skips[i] ? 1.0 : 0.0));
    CHECK(value(decisions.scale) == scale);
    CHECK(value(decisions.grad_scale) == scale);
    CHECK(value(decisions.growth_tracker) == tracker);
    CHECK(value(decisions.window) == static_cast<double>(i));
    CHECK(value(decisions.lr) == 0.5 + static_cast<double>(done) / 64.0);
    CHECK(value(decisions.step) == static_cast<double>(done + 1));
    CHECK(value(decisions.norm) == 2048.0 / scale);
    CHECK(value(decisions.loss_sum) == 3.0);
    if (!skips[i]) ++done;
    scale = scales[i];
    tracker = trackers[i];
    CHECK(value(state.scale) == scale);
    CHECK(value(state.growth_tracker) == tracker);
    CHECK(state.steps_done.item<int64_t>() == done);
    CHECK(state.windows.item<int64_t>() == static_cast<int64_t>(i) + 1);
  }
}

void check_growth_to_infinity(c10::Device device) {
  const double largest = std::ldexp(1.0, 127);
  const StepState state = fresh_state(device, largest);
  const StepRules rules{.growth_interval = 1};
  kernels::step_control_(state, findings(device, false), rules);
  CHECK(value(state.scale) == largest);
  CHECK(value(state.growth_tracker) == 0.0);
}

void check_no_scaler(c10::Device device) {
  StepState state = fresh_state(device);
  state.scale = at::Tensor();
  state.growth_tracker = at::Tensor();
  const StepDecisions decisions = kernels::step_control_(state, findings(device, true), {});
  CHECK(value(decisions.found_inf) == 1.0);
  CHECK(value(decisions.grad_scale) == 1.0);
  CHECK(value(decisions.scale) == 1.0);
  CHECK(value(decisions.growth_tracker) == 0.0);
  CHECK(value(decisions.norm) == 2048.0);
  CHECK(state.steps_done.item<int64_t>() == 0);
  CHECK(state.windows.item<int64_t>() == 1);
}

// Source of the rule: torch.nn.utils.clip_grad_norm_.
void check_clipping(c10::Device device) {
  for (const double max_norm : {0.5, 2.0, 7.0}) {
    INFO(max_norm);
    const StepDecisions decisions =
        kernels::step_control_(fresh_state(device), findings(device, false), {.clip_grad_norm = max_norm});
    const double coefficient = std::min(1.0, max_norm / (2.0 + 1e-6));
    CHECK(value(decisions.norm) == 2.0);
    CHECK(value(decisions.grad_scale) == Approx(1024.0 / coefficient).epsilon(1e-6));
  }
  const StepDecisions zero =
      kernels::step_control_(fresh_state(device), findings(device, false, 0.0), {.clip_grad_norm = 1.0});
  CHECK(value(zero.grad_scale) == 1024.0);
}

void check_missing_samples(c10::Device device) {
  StepFindings found = findings(device, false);
  found.found_inf = scalar(2.0, device, at::kDouble);  // of two ranks
  found.loss_sum = scalar(6.0, device, at::kDouble);
  found.planned_samples = 8.0;
  found.samples = scalar(6.0, device, at::kDouble);
  StepDecisions decisions = kernels::step_control_(fresh_state(device), found, {});
  CHECK(value(decisions.found_inf) == 1.0);
  CHECK(value(decisions.grad_scale) == 768.0);
  CHECK(value(decisions.norm) == 2.0 / 0.75);
  CHECK(value(decisions.loss_sum) == 8.0);
  found.samples = scalar(0.0, device, at::kLong);  // counts as one, so that nothing is divided by zero
  decisions = kernels::step_control_(fresh_state(device), found, {});
  CHECK(value(decisions.grad_scale) == 128.0);
}

}  // namespace

AMPCTL_DEVICE_TEST_CASE(check_the_scalers_rule,
                        "Scale, growth tracker, learning rate and counters follow skips by PyTorch's rule")
AMPCTL_DEVICE_TEST_CASE(check_growth_to_infinity, "A scale that would grow to infinity stays")
AMPCTL_DEVICE_TEST_CASE(check_no_scaler,
                        "Without a scaler nothing is scaled, and a step is skipped all the same")
AMPCTL_DEVICE_TEST_CASE(check_clipping, "Clipping by norm goes into what gradients are divided by")
AMPCTL_DEVICE_TEST_CASE(check_missing_samples,
                        "Norm, loss and gradients are corrected by the samples there were")

TEST_CASE("A step's state of other types is refused") {
  StepState state = fresh_state(at::kCPU);
  state.growth_tracker = at::Tensor();
  CHECK_THROWS_AS(kernels::step_control_(state, findings(at::kCPU, false), {}), Error);
  state = fresh_state(at::kCPU);
  state.steps_done = state.steps_done.to(at::kFloat);
  CHECK_THROWS_AS(kernels::step_control_(state, findings(at::kCPU, false), {}), Error);
}

#ifdef AMPCTL_WITH_CUDA
TEST_CASE("step_control_ equals its composition bit for bit", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const c10::Device device(at::kCUDA, 0);
  const double infinity = std::numeric_limits<double>::infinity();
  const StepState ours = fresh_state(device, 3.7e5);
  const StepState theirs = fresh_state(device, 3.7e5);
  int64_t i = 0;
  for (const double norm : {0.0, 1e-30, 1.3, 77.7e5, 1e200, infinity, double(NAN)}) {
    for (const std::optional<double>& max_norm : {std::optional<double>(), std::optional<double>(1.7)}) {
      for (const double samples : {0.0, 41.0, 53.0}) {
        INFO(norm << " " << max_norm.value_or(-1) << " " << samples);
        StepFindings found = findings(device, ++i % 4 == 0, norm);
        found.samples = scalar(samples, device, at::kDouble);
        found.planned_samples = 53.0;
        const StepRules rules{
            .growth_factor = 1.9, .backoff_factor = 0.6, .growth_interval = 2, .clip_grad_norm = max_norm};
        const StepDecisions a = kernels::step_control_(ours, found, rules);
        const StepDecisions b = kernels::step_control_reference_(theirs, found, rules);
        const auto same = [](const at::Tensor& x, const at::Tensor& y) {
          return x.scalar_type() == y.scalar_type() &&
                 (value(x) == value(y) || (std::isnan(value(x)) && std::isnan(value(y))));
        };
        CHECK(same(a.found_inf, b.found_inf));
        CHECK(same(a.grad_scale, b.grad_scale));
        CHECK(same(a.lr, b.lr));
        CHECK(same(a.step, b.step));
        CHECK(same(a.norm, b.norm));
        CHECK(same(a.loss_sum, b.loss_sum));
        CHECK(same(a.scale, b.scale));
        CHECK(same(a.growth_tracker, b.growth_tracker));
        CHECK(same(a.window, b.window));
        CHECK(same(ours.scale, theirs.scale));
        CHECK(same(ours.growth_tracker, theirs.growth_tracker));
        CHECK(same(ours.steps_done, theirs.steps_done));
      }
    }
  }
}

TEST_CASE("step_control_ reads nothing on the host and replays in a CUDA graph", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const c10::Device device(at::kCUDA, 0);
  const StepState state = fresh_state(device);
  const StepFindings found = findings(device, false);
  StepDecisions decisions;
  test::Captured graph([&] {
    const test::NoSync no_sync;
    CHECK_NOTHROW(decisions = kernels::step_control_(state, found, {}));
  });
  for (int step = 0; step < 5; ++step) {
    found.found_inf.fill_(step == 2 ? 1.0 : 0.0);
    graph.replay();
    CHECK(value(decisions.window) == step);
    CHECK(value(decisions.step) == (step < 3 ? step + 1 : step));
  }
  CHECK(value(state.scale) == 512.0);
}
#endif
