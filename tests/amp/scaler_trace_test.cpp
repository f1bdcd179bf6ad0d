// The scaler beside PyTorch's own torch.amp.GradScaler, step by step.
#include <cmath>
#include <fstream>

#include "amp/fixture.h"
#include "amp/grad_scaler.h"
#include "support/devices.h"
#include "support/process.h"

using namespace ampctl;

namespace {

struct Setting {
  std::string name;
  amp::GradScalerOptions options;
  int64_t steps = 0;
};

struct Step {
  int inf = 0;               // the step's gradient is not finite
  int64_t new_interval = 0;  // > 0: set before the step
  double scale = 0.0;        // after update()
  int64_t tracker = 0;
  int64_t skipped = 0;  // so far
};

std::string reference_file() {
  static const test::TempDir folder;
  static const std::string path = [] {
    std::string file = (folder.path() / "trace.txt").string();
    const auto script = (test::source_dir() / "tests/reference/scaler_trace_reference.py").string();
    const auto result = test::run({test::python(), script, file});
    if (result.exit_code != 0) throw std::runtime_error(result.err);
    return file;
  }();
  return path;
}

Setting read_setting(std::istream& in) {
  Setting setting;
  in >> setting.name >> setting.options.init_scale >> setting.options.growth_factor >>
      setting.options.backoff_factor >> setting.options.growth_interval >> setting.steps;
  return setting;
}

Step read_step(std::istream& in) {
  Step step;
  in >> step.inf >> step.new_interval >> step.scale >> step.tracker >> step.skipped;
  return step;
}

void check_traces(c10::Device device) {
  if (!test::python_has({"torch"})) return test::skip("Python has no torch");
  std::ifstream in(reference_file());
  int settings = 0;
  for (Setting setting = read_setting(in); in; setting = read_setting(in)) {
    INFO(setting.name);
    amp::GradScaler scaler(setting.options);
    scaler.materialize(device);
    test::ProbeOptimizer clean({at::ones({}, at::TensorOptions(device))});
    test::ProbeOptimizer overflowed({at::full({}, INFINITY, at::TensorOptions(device))});
    int64_t skipped = 0;
    for (int64_t i = 0; i < setting.steps; ++i) {
      const Step expected = read_step(in);
      if (expected.new_interval > 0) scaler.set_growth_interval(expected.new_interval);
      auto& optimizer = expected.inf != 0 ? overflowed : clean;
      const int64_t steps_before = optimizer.steps;
      clean.gradients()[0].fill_(1.0);  // unscale_ divided it
      scaler.step(optimizer);
      scaler.update();
      if (optimizer.steps == steps_before) ++skipped;
      // REQUIRE alone would build its message ten thousand times.
      if (scaler.get_scale() != expected.scale || scaler.get_growth_tracker() != expected.tracker ||
          skipped != expected.skipped) {
        INFO("step " << i);
        CHECK(scaler.get_scale() == expected.scale);
        CHECK(scaler.get_growth_tracker() == expected.tracker);
        REQUIRE(skipped == expected.skipped);
      }
    }
    CHECK(skipped > 0);
    ++settings;
  }
  CHECK(settings == 7);
}

}  // namespace

AMPCTL_DEVICE_TEST_CASE(
    check_traces, "Over 10,000 steps with random infs scale, tracker and skips equal PyTorch's GradScaler")
