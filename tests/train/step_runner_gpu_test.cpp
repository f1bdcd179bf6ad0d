// Steps replayed as CUDA graphs against the same steps run eagerly.
#include <cmath>
#include <functional>
#include <vector>

#include <ATen/Context.h>
#include <ATen/ops/randint.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "fixture.h"
#include "support/catch.h"
#include "support/deterministic.h"
#include "support/no_sync.h"
#include "support/skip.h"
#include "train/step_runner.h"

namespace ampctl {
namespace {

using Window = std::vector<data::Batch>;

constexpr int kSteps = 200;
constexpr int kFewerSteps = 50;
constexpr int kStepsAnEpoch = 20;
constexpr int kDrainEvery = 50;

const c10::Device kGpu(c10::kCUDA, 0);

c10::Stream own_stream() { return c10::impl::VirtualGuardImpl(c10::kCUDA).getStreamFromGlobalPool(kGpu); }

data::Batch on_gpu(data::Batch batch, c10::ScalarType dtype) {
  batch.images = batch.images.to(kGpu, dtype);
  batch.targets = batch.targets.to(kGpu);
  return batch;
}

/// Two micro-batches a window, a shorter window at each epoch's end, an inf in some windows.
std::vector<Window> windows(const std::string& model, c10::ScalarType dtype, int steps = kSteps) {
  at::manual_seed(1);
  std::vector<Window> all;
  for (int step = 0; step < steps; ++step) {
    const bool short_window = step % kStepsAnEpoch == kStepsAnEpoch - 1;
    const bool overflow = step == 1 || step == 40 || step == 41 || step % 70 == 69;
    const data::Batch last =
        overflow ? test::make_overflowing_batch(model, 8) : test::make_batch(model, short_window ? 5 : 8);
    Window window(2);
    window[0] = on_gpu(test::make_batch(model, 8), dtype);
    window[1] = on_gpu(last, dtype);
    all.push_back(std::move(window));
  }
  return all;
}

struct Result {
  std::vector<at::Tensor> state;
  std::vector<amp::StepRow> rows;
  size_t graphs = 0;
};

Result run(const test::SetupOptions& options, bool graph, const std::vector<Window>& windows,
           const std::function<void(test::Setup&, int)>& between = nullptr) {
  const c10::StreamGuard guard(own_stream());
  test::Setup setup(options);
  setup.model->train();
  train::GraphOptions graph_options;
  graph_options.wanted = graph;
  train::StepRunner runner(*setup.step, kGpu, graph_options);
  Result result;
  for (int step = 0; step < static_cast<int>(windows.size()); ++step) {
    {
      const test::NoSync no_sync;
      runner.run(windows[static_cast<size_t>(step)]);
    }
    CHECK_FALSE(runner.take_notice().has_value());
    if (between) between(setup, step);
    if (step % kDrainEvery == kDrainEvery - 1) {
      const auto rows = setup.rows();
      result.rows.insert(result.rows.end(), rows.begin(), rows.end());
    }
  }
  result.state = setup.state();
  result.graphs = runner.graphs();
  return result;
}

void check_equal(const Result& graph, const Result& eager) {
  REQUIRE(graph.state.size() == eager.state.size());
  int differing = 0;
  for (size_t i = 0; i < graph.state.size(); ++i) differing += graph.state[i].equal(eager.state[i]) ? 0 : 1;
  CHECK(differing == 0);
  REQUIRE(graph.rows.size() == eager.rows.size());
  for (size_t i = 0; i < graph.rows.size(); ++i) {
    CAPTURE(i);
    const auto& a = graph.rows[i];
    const auto& b = eager.rows[i];
    CHECK(a.step == b.step);
    CHECK(a.scale == b.scale);
    CHECK(a.growth_tracker == b.growth_tracker);
    CHECK(a.found_inf == b.found_inf);
    CHECK(a.samples == b.samples);
    CHECK(a.lr == b.lr);
    CHECK(a.nonfinite == b.nonfinite);
    CHECK((a.loss_sum == b.loss_sum || (std::isnan(a.loss_sum) && std::isnan(b.loss_sum))));
  }
}

test::SetupOptions resnet18(const std::string& precision) {
  test::SetupOptions options;
  options.model = "resnet18";
  options.precision = precision;
  options.optimizer = "sgd";
  options.clip_grad_norm = 1.0;
  options.device = kGpu;
  options.lr = 1e-3;
  options.growth_interval = 30;
  return options;
}

TEST_CASE("Replayed steps equal eager ones bit for bit: short windows, accumulation, skips, growth",
          "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const test::Deterministic deterministic;
  const std::string precision = GENERATE("float16", "bfloat16", "float32");
  CAPTURE(precision);
  const bool scaled = precision == "float16";
  const auto data = windows("resnet18", scaled ? c10::kHalf : c10::kFloat, scaled ? kSteps : kFewerSteps);
  const Result eager = run(resnet18(precision), false, data);
  const Result graph = run(resnet18(precision), true, data);
  CHECK(eager.graphs == 0);
  CHECK(graph.graphs == 2);
  int skips = 0;
  for (const auto& row : eager.rows) skips += row.found_inf ? 1 : 0;
  CHECK(skips >= 3);
  check_equal(graph, eager);
}

TEST_CASE(
    "Without deterministic algorithms losses of replayed and eager steps differ by at most 1e-3 on average",
    "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const auto data = windows("resnet18", c10::kHalf);
  const Result eager = run(resnet18("float16"), false, data);
  const Result graph = run(resnet18("float16"), true, data);
  REQUIRE(graph.rows.size() == kSteps);
  double difference = 0.0;
  for (size_t i = 0; i < kSteps; ++i) {
    const auto& a = graph.rows[i];
    const auto& b = eager.rows[i];
    if (a.found_inf || b.found_inf) continue;
    difference += std::abs(a.loss_sum - b.loss_sum) / static_cast<double>(a.samples);
  }
  CHECK(difference / kSteps <= 1e-3);
}

TEST_CASE("AdamW with dropout draws the same numbers in replayed and eager steps", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const test::Deterministic deterministic;
  test::SetupOptions options;
  options.precision = "float16";
  options.optimizer = "adamw";
  options.dropout = 0.5;
  options.lr = 1e-3;
  options.device = kGpu;
  const auto data = windows("mlp", c10::kHalf);
  check_equal(run(options, true, data), run(options, false, data));
}

TEST_CASE("Forward passes in evaluation mode and changed counters between steps are seen by the next replay",
          "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const test::Deterministic deterministic;
  auto options = resnet18("float16");
  for (int k = 0; k <= kSteps; ++k) options.lr_table.push_back(1e-3F / static_cast<float>(1 + k));
  const auto data = windows("resnet18", c10::kHalf);
  const at::Tensor images = data.front().front().images;
  const auto between = [&](test::Setup& setup, int step) {
    if (step % kStepsAnEpoch == 0) {
      setup.model->eval();
      const at::NoGradGuard no_grad;
      (void)(*setup.model)(images.to(c10::kFloat));
      setup.model->train();
    }
    if (step == kSteps / 2) setup.step->set_counters(3, 4);
  };
  const Result graph = run(options, true, data, between);
  check_equal(graph, run(options, false, data, between));
  CHECK(graph.rows.at(kSteps / 2 + 1).step == 4);
}

TEST_CASE("More shapes than graphs are kept for run eagerly, and the reason is told once", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const c10::StreamGuard guard(own_stream());
  test::SetupOptions options;
  options.device = kGpu;
  test::Setup setup(options);
  train::StepRunner runner(*setup.step, kGpu, {});
  int notices = 0;
  for (int round = 0; round < 3; ++round) {
    for (int64_t size = 1; size <= static_cast<int64_t>(train::StepRunner::kMostGraphs) + 2; ++size) {
      runner.run({on_gpu(test::make_batch("mlp", size), c10::kFloat)});
      if (runner.take_notice()) ++notices;
    }
  }
  CHECK(notices == 1);
  CHECK(runner.graphs() == train::StepRunner::kMostGraphs);
  CHECK(setup.rows().size() == 3 * (train::StepRunner::kMostGraphs + 2));
}

TEST_CASE("A step that cannot be captured goes on eagerly with a warning that gives the reason", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const c10::StreamGuard guard(own_stream());
  test::SetupOptions options;
  options.device = kGpu;
  options.fused = false;  // reads found_inf on the host
  test::Setup setup(options);
  train::StepRunner runner(*setup.step, kGpu, {});
  std::vector<std::string> warnings;
  for (int step = 0; step < 10; ++step) {
    runner.run({on_gpu(test::make_batch("mlp", 8), c10::kFloat)});
    const auto notice = runner.take_notice();
    if (notice) warnings.push_back(notice->text);
    if (notice) CHECK(notice->warning);
  }
  REQUIRE(warnings.size() == 1);
  CHECK(warnings.front().find("capture failed") != std::string::npos);
  CHECK(setup.rows().size() == 10);
}

}  // namespace
}  // namespace ampctl
