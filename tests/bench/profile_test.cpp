#include "bench/profile.h"

#include <chrono>
#include <thread>

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include "support/catch.h"
#include "support/skip.h"
#include "train/step_phase.h"

namespace bench = ampctl::bench;
namespace train = ampctl::train;

namespace {

// A step with `n` products ahead and twice as many back.
void step(const at::Tensor& a, int n) {
  {
    const train::StepPhase phase(train::kForwardPhase);
    for (int i = 0; i < n; ++i) (void)at::mm(a, a);
  }
  {
    const train::StepPhase phase(train::kBackwardPhase);
    for (int i = 0; i < 2 * n; ++i) (void)at::mm(a, a);
  }
  const train::StepPhase phase(train::kOptimizerPhase);
  const train::StepPhase inside(train::kCommunicationPhase);
  (void)at::mm(a, a);
}

const bench::KernelTime* longest(const bench::Profile& profile) {
  return profile.kernels.empty() ? nullptr : &profile.kernels.front();
}

}  // namespace

TEST_CASE("On the CPU operators are named with their calls and time a step, phases with the host's time") {
  const at::Tensor a = at::ones({128, 128});
  const auto profile = bench::profile_steps(c10::kCPU, 4, [&] {
    for (int i = 0; i < 4; ++i) step(a, 5);
    const train::StepPhase phase(train::kBackwardPhase);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  });
  REQUIRE(longest(profile) != nullptr);
  CHECK(longest(profile)->name == "aten::mm");
  CHECK(longest(profile)->launches == 16.0);
  CHECK(longest(profile)->seconds > 0.0);
  CHECK(profile.phases.forward > 0.0);
  CHECK(profile.phases.backward >= 0.05);
  CHECK(profile.phases.communication > 0.0);
  CHECK(profile.phases.optimizer < profile.phases.communication);
  CHECK(profile.busy_seconds == 0.0);
}

TEST_CASE("On a GPU kernels belong to the phase that launched them, and gaps are idle", "[gpu]") {
  if (!at::hasCUDA()) return ampctl::test::skip("there is no GPU");
  const c10::Device device(c10::kCUDA, 0);
  const at::Tensor a = at::ones({4096, 4096}, at::TensorOptions().device(device).dtype(at::kHalf));
  step(a, 1);
  const auto profile = bench::profile_steps(device, 3, [&] {
    for (int i = 0; i < 3; ++i) step(a, 2);
  });
  REQUIRE(longest(profile) != nullptr);
  CHECK(longest(profile)->launches == 7.0);
  CHECK(profile.phases.backward == Approx(2.0 * profile.phases.forward).epsilon(0.2));
  CHECK(profile.phases.other == 0.0);
  const double kernels = profile.phases.forward + profile.phases.backward + profile.phases.communication +
                         profile.phases.optimizer;
  CHECK(profile.busy_seconds == Approx(kernels).epsilon(0.05));
  CHECK(profile.idle_seconds >= 0.0);
  CHECK(profile.exposed_communication_seconds == 0.0);
}
