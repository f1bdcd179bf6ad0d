#include "amp/grad_scaler.h"

#include <cmath>

#include "amp/fixture.h"
#include "base/error.h"
#include "support/devices.h"

using namespace ampctl;
using amp::GradScaler;
using test::ProbeOptimizer;

namespace {

at::Tensor ones(c10::Device device, at::ScalarType dtype = at::kFloat) {
  return at::ones({4}, at::TensorOptions(device).dtype(dtype));
}

at::Tensor infinite(c10::Device device) { return at::full({4}, INFINITY, at::TensorOptions(device)); }

// One iteration with the gradient given.
void iterate(GradScaler& scaler, const at::Tensor& grad, bool fused = false) {
  ProbeOptimizer optimizer({grad}, fused);
  scaler.scale(ones(grad.device()));
  scaler.step(optimizer);
  scaler.update();
}

void check_growth_and_backoff(c10::Device device) {
  GradScaler scaler({.init_scale = 4.0, .growth_interval = 2});
  iterate(scaler, ones(device));
  CHECK(scaler.get_scale() == 4.0);
  CHECK(scaler.get_growth_tracker() == 1);
  iterate(scaler, ones(device));
  CHECK(scaler.get_scale() == 8.0);
  CHECK(scaler.get_growth_tracker() == 0);
  iterate(scaler, ones(device));
  CHECK(scaler.get_growth_tracker() == 1);
  iterate(scaler, infinite(device));
  CHECK(scaler.get_scale() == 4.0);
  CHECK(scaler.get_growth_tracker() == 0);
}

void check_growth_stops_before_inf(c10::Device device) {
  GradScaler scaler({.init_scale = 1e38, .growth_factor = 16.0, .growth_interval = 1});
  iterate(scaler, ones(device));
  CHECK(scaler.get_scale() == static_cast<double>(1e38F));
  CHECK(scaler.get_growth_tracker() == 0);
}

void check_state_is_on_the_device(c10::Device device) {
  GradScaler scaler({});
  CHECK_FALSE(scaler.scale_tensor().defined());
  const at::Tensor scaled = scaler.scale(ones(device));
  CHECK(at::equal(scaled, at::full({4}, 65536.0, at::TensorOptions(device))));
  CHECK(scaler.scale_tensor().device() == device);
  CHECK(scaler.scale_tensor().scalar_type() == at::kFloat);
  CHECK(scaler.scale_tensor().dim() == 0);
  CHECK(scaler.growth_tracker_tensor().scalar_type() == at::kInt);
  CHECK(scaler.scale(ones(device, at::kHalf)).scalar_type() == at::kHalf);
}

void check_fused_step_gets_scale_and_flag(c10::Device device) {
  GradScaler scaler({.init_scale = 4.0});
  scaler.scale(ones(device));
  ProbeOptimizer clean({ones(device)}, /*fused=*/true);
  scaler.step(clean);
  CHECK(clean.seen_grad_scale.item<float>() == 4.0F);
  CHECK(clean.seen_found_inf.item<float>() == 0.0F);
  CHECK(at::equal(clean.gradients()[0], ones(device)));  // still scaled: the kernel divides

  scaler.update();
  ProbeOptimizer overflowed({infinite(device)}, /*fused=*/true);
  scaler.step(overflowed);
  CHECK(overflowed.steps == 1);  // the kernel skips, not the host
  CHECK(overflowed.seen_found_inf.item<float>() == 1.0F);

  scaler.update();
  ProbeOptimizer unscaled({ones(device)}, /*fused=*/true);
  scaler.unscale_(unscaled);
  scaler.step(unscaled);
  CHECK_FALSE(unscaled.seen_grad_scale.defined());
  CHECK(at::equal(unscaled.gradients()[0], ones(device).div(2.0)));  // scale was halved by the overflow
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

AMPCTL_DEVICE_TEST_CASE(check_growth_and_backoff,
                        "The scale doubles after growth_interval clean steps and halves at an overflow")
AMPCTL_DEVICE_TEST_CASE(check_growth_stops_before_inf, "Growth never makes the scale infinite")
AMPCTL_DEVICE_TEST_CASE(check_state_is_on_the_device,
                        "The first scale() places 0-dim state on the outputs' device")
AMPCTL_DEVICE_TEST_CASE(check_fused_step_gets_scale_and_flag,
                        "A fused optimizer gets grad_scale and found_inf, and no grad_scale after unscale_")

TEST_CASE("The scaler's state moves to another one, before and after the first use") {
  GradScaler used({.init_scale = 3.0, .growth_factor = 4.0, .backoff_factor = 0.5, .growth_interval = 2});
  iterate(used, ones(at::kCPU));
  const auto state = used.state_dict();
  REQUIRE(state);
  CHECK(state->scale == 3.0);
  CHECK(state->growth_factor == 4.0);
  CHECK(state->backoff_factor == 0.5);
  CHECK(state->growth_interval == 2);
  CHECK(state->growth_tracker == 1);

  GradScaler fresh({.init_scale = 6.0, .growth_factor = 7.0, .backoff_factor = 0.8, .growth_interval = 1});
  const bool used_before = GENERATE(false, true);
  if (used_before) iterate(fresh, ones(at::kCPU));
  fresh.load_state_dict(state);
  CHECK(fresh.get_scale() == 3.0);
  CHECK(fresh.get_growth_tracker() == 1);
  iterate(fresh, ones(at::kCPU));
  CHECK(fresh.get_scale() == 12.0);
  CHECK(fresh.get_growth_tracker() == 0);
}

TEST_CASE("State is readable before the first use, and no step is needed to save it") {
  const GradScaler scaler({.init_scale = 128.0, .growth_interval = 7});
  CHECK(scaler.get_scale() == 128.0);
  CHECK(scaler.get_growth_tracker() == 0);
  CHECK(scaler.state_dict()->growth_interval == 7);
}

TEST_CASE("A disabled scaler passes everything through with the same control flow") {
  GradScaler scaler({.growth_factor = 1.0, .enabled = false});  // factors are not checked, as in PyTorch
  const at::Tensor loss = ones(at::kCPU);
  CHECK(scaler.scale(loss).is_same(loss));
  ProbeOptimizer optimizer({infinite(at::kCPU)});
  scaler.unscale_(optimizer);
  scaler.step(optimizer);
  scaler.update();
  scaler.step(optimizer);  // no stages to keep
  CHECK(optimizer.steps == 2);
  CHECK(at::equal(optimizer.gradients()[0], infinite(at::kCPU)));
  CHECK(scaler.get_scale() == 1.0);
  CHECK(scaler.get_growth_tracker() == 0);
  CHECK_FALSE(scaler.state_dict());
  CHECK_NOTHROW(scaler.load_state_dict(std::nullopt));
}

TEST_CASE("update(new_scale) sets the scale and keeps the growth tracker") {
  GradScaler scaler({.init_scale = 8.0, .growth_interval = 10});
  iterate(scaler, ones(at::kCPU));
  scaler.update(32.0);
  CHECK(scaler.get_scale() == 32.0);
  CHECK(scaler.get_growth_tracker() == 1);
}

TEST_CASE("An interval lowered under the tracker stops growth until the next overflow") {
  GradScaler scaler({.init_scale = 8.0, .growth_interval = 10});
  for (int i = 0; i < 5; ++i) iterate(scaler, ones(at::kCPU));
  scaler.set_growth_interval(3);
  for (int i = 0; i < 5; ++i) iterate(scaler, ones(at::kCPU));
  CHECK(scaler.get_scale() == 8.0);
  CHECK(scaler.get_growth_tracker() == 10);
  iterate(scaler, infinite(at::kCPU));
  for (int i = 0; i < 3; ++i) iterate(scaler, ones(at::kCPU));
  CHECK(scaler.get_scale() == 8.0);  // 8 * 0.5 * 2
}

TEST_CASE("found_inf from outside replaces the scaler's own pass, and unscale_ adds to it") {
  GradScaler scaler({.init_scale = 4.0});
  scaler.scale(ones(at::kCPU));
  ProbeOptimizer optimizer({ones(at::kCPU)}, GENERATE(false, true));
  scaler.set_found_inf(optimizer, at::ones({}));
  CHECK(scaler.found_inf(optimizer).item<float>() == 1.0F);
  scaler.step(optimizer);
  CHECK(optimizer.steps == (optimizer.is_fused() ? 1 : 0));
  scaler.update();
  CHECK(scaler.get_scale() == 2.0);
  CHECK_FALSE(scaler.found_inf(optimizer).defined());

  scaler.update_from_found_inf(at::ones({}));
  CHECK(scaler.get_scale() == 1.0);
}

TEST_CASE("Calls out of order are refused in PyTorch's words") {
  const std::string scale_first =
      " but _scale is None.  This may indicate your script did not use scaler.scale(loss or outputs) earlier "
      "in "
      "the iteration.";
  GradScaler scaler({});
  ProbeOptimizer optimizer({ones(at::kCPU)});
  CHECK(message_of([&] { scaler.unscale_(optimizer); }) == "Attempted unscale_" + scale_first);
  CHECK(message_of([&] { scaler.step(optimizer); }) == "Attempted step" + scale_first);
  CHECK(message_of([&] { scaler.update(); }) == "Attempted update" + scale_first);

  scaler.scale(ones(at::kCPU));
  CHECK(message_of([&] { scaler.update(); }) == "No inf checks were recorded prior to update.");
  scaler.unscale_(optimizer);
  CHECK(message_of([&] { scaler.unscale_(optimizer); }) ==
        "unscale_() has already been called on this optimizer since the last update().");
  scaler.step(optimizer);
  CHECK(message_of([&] { scaler.unscale_(optimizer); }) == "unscale_() is being called after step().");
  CHECK(message_of([&] { scaler.step(optimizer); }) ==
        "step() has already been called since the last update().");
  scaler.update();
  CHECK_NOTHROW(scaler.step(optimizer));

  ProbeOptimizer empty({});
  CHECK(message_of([&] { scaler.step(empty); }) == "No inf checks were recorded for this optimizer.");
}

TEST_CASE("Unusable gradients, factors and states are refused in PyTorch's words") {
  GradScaler scaler({});
  scaler.scale(ones(at::kCPU));
  ProbeOptimizer half({ones(at::kCPU, at::kHalf)});
  CHECK(message_of([&] { scaler.unscale_(half); }) == "Attempting to unscale FP16 gradients.");
  CHECK(message_of([&] { scaler.load_state_dict(std::nullopt); }) ==
        "The source state dict is empty, possibly because it was saved from a disabled instance of "
        "GradScaler.");
  CHECK(message_of([] { GradScaler({.growth_factor = 1.0}); }) == "The growth factor must be > 1.0.");
  CHECK(message_of([] { GradScaler({.growth_factor = NAN}); }) == "The growth factor must be > 1.0.");
  CHECK(message_of([] { GradScaler({.backoff_factor = 1.0}); }) == "The backoff factor must be < 1.0.");
  CHECK(message_of([&] { scaler.set_growth_factor(0.5); }) == "The growth factor must be > 1.0.");
  CHECK(message_of([&] { scaler.set_backoff_factor(2.0); }) == "The backoff factor must be < 1.0.");
}
