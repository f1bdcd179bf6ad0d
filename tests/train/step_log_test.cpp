#include "train/step_log.h"

#include <cmath>
#include <limits>

#include "recording_bus.h"
#include "support/catch.h"
#include "support/matchers.h"
#include "train/memory_stats.h"

namespace ampctl {
namespace {

using test::ContainsSubstring;

struct Log {
  explicit Log(config::RunPlan given) : plan(std::move(given)) {}
  config::RunPlan plan;
  test::RecordingBus recorded;
  train::Progress progress;
  train::StepLog log{plan, c10::kCPU, {"conv1.weight", "conv1.bias", "fc.weight", "fc.bias"}, recorded.bus};
};

config::RunPlan float16_plan() {
  config::RunPlan plan;
  plan.scaler_enabled = true;
  plan.precision = config::Precision::float16;
  return plan;
}

amp::StepRow good(int64_t step, double loss_sum, int64_t samples) {
  amp::StepRow row;
  row.step = step;
  row.scale = 1024;
  row.loss_sum = loss_sum;
  row.samples = samples;
  row.lr = 0.1;
  row.grad_norm = 2.5;
  return row;
}

amp::StepRow bad(int64_t step, double scale, std::vector<int64_t> nonfinite = {2, 3}) {
  amp::StepRow row;
  row.step = step;
  row.scale = scale;
  row.found_inf = true;
  row.loss_sum = std::numeric_limits<double>::quiet_NaN();
  row.samples = 8;
  row.nonfinite = std::move(nonfinite);
  return row;
}

TEST_CASE(
    "A report is the mean over the samples of steps that were not skipped, after the overflows it covers") {
  Log log(float16_plan());
  log.log.absorb({good(0, 10.0, 8), bad(1, 1024), good(2, 2.0, 4)}, log.progress);
  log.log.report({0, 3, 3, 20, 2.0, 0.5}, log.progress);
  REQUIRE(log.recorded.events.size() == 2);
  const auto& overflow = std::get<events::Overflow>(log.recorded.events[0]);
  CHECK(overflow.step == 2);
  CHECK(overflow.scale_before == 1024);
  CHECK(overflow.scale_after == 512);
  // Backward begins at the output: the last parameters overflowed first.
  CHECK(overflow.parameters == std::vector<std::string>{"fc.bias", "fc.weight"});
  CHECK(overflow.parameter_count == 2);
  const auto& end = std::get<events::StepEnd>(log.recorded.events[1]);
  CHECK(end.step == 3);
  CHECK(end.loss == Approx(12.0 / 12));
  CHECK(end.lr == 0.1);
  CHECK(end.grad_norm == 2.5);
  CHECK(end.scale == 1024);
  CHECK(end.skipped_steps == 1);
  CHECK(end.samples_per_sec == Approx(10));
  CHECK(end.data_wait == Approx(0.25));
  CHECK(end.step_seconds == Approx(2.0 / 3));
}

TEST_CASE("Each report begins anew; one over skipped steps only has no loss") {
  Log log(float16_plan());
  log.log.absorb({good(0, 100.0, 1)}, log.progress);
  log.log.report({0, 1, 1, 1, 1.0, 0.0}, log.progress);
  log.log.absorb({bad(1, 1024)}, log.progress);
  log.log.report({0, 2, 1, 8, 1.0, 0.0}, log.progress);
  log.log.absorb({good(2, 6.0, 3)}, log.progress);
  log.log.report({0, 3, 1, 3, 1.0, 0.0}, log.progress);
  CHECK(std::isnan(std::get<events::StepEnd>(log.recorded.events[2]).loss));
  CHECK(std::get<events::StepEnd>(log.recorded.events[3]).loss == Approx(2.0));
}

TEST_CASE("Skips in a row are counted over reports and forgotten at an update") {
  Log log(float16_plan());
  log.log.absorb({bad(0, 1024), bad(1, 512)}, log.progress);
  log.log.absorb({bad(2, 256)}, log.progress);
  CHECK(log.progress.consecutive_skips == 3);
  log.log.absorb({good(3, 1.0, 1), bad(4, 128)}, log.progress);
  CHECK(log.progress.consecutive_skips == 1);
  CHECK(log.progress.skipped_steps == 4);
}

TEST_CASE("A scale below min_scale is a divergence that names the step, counted from 1, and the advice") {
  config::RunPlan plan = float16_plan();
  plan.config.amp.scaler.min_scale = 128;
  Log log(plan);
  log.log.absorb({bad(0, 512), bad(1, 256)}, log.progress);
  CHECK_FALSE(log.log.divergence());
  log.log.absorb({bad(2, 128)}, log.progress);
  REQUIRE(log.log.divergence());
  CHECK_THAT(*log.log.divergence(), ContainsSubstring("at step 3 the loss scale fell to 64"));
  CHECK_THAT(*log.log.divergence(), ContainsSubstring("amp.fp32_modules"));
}

TEST_CASE("min_scale 0 sets no floor") {
  config::RunPlan plan = float16_plan();
  plan.config.amp.scaler.min_scale = 0;
  Log log(plan);
  log.log.absorb({bad(0, 1e-30)}, log.progress);
  CHECK_FALSE(log.log.divergence());
}

TEST_CASE("Too many skips in a row are announced halfway and then a divergence, with or without a scaler") {
  for (const bool scaler : {true, false}) {
    config::RunPlan plan = float16_plan();
    plan.scaler_enabled = scaler;
    plan.config.amp.scaler.max_consecutive_skips = 4;
    Log log(plan);
    log.log.absorb({bad(0, 65536), bad(1, 65536)}, log.progress);
    const auto& warning = std::get<events::Message>(log.recorded.events.back());
    CHECK_THAT(warning.text,
               ContainsSubstring("2 steps in a row were skipped; at 4 the run ends as diverged"));
    log.log.absorb({bad(2, 65536)}, log.progress);
    CHECK_FALSE(log.log.divergence());
    log.log.absorb({bad(3, 65536)}, log.progress);
    REQUIRE(log.log.divergence());
    CHECK_THAT(*log.log.divergence(), ContainsSubstring("4 steps in a row up to step 4"));
    CHECK(scaler == (log.log.divergence()->find("however small the scale") != std::string::npos));
  }
}

TEST_CASE("Without a scaler a skip leaves the scale as it is, and many names are cut short") {
  Log log(config::RunPlan{});
  log.log.absorb({bad(0, 1.0, {0, 1, 2, 3})}, log.progress);
  const auto& overflow = std::get<events::Overflow>(log.recorded.events[0]);
  CHECK(overflow.scale_after == 1.0);
  CHECK(overflow.parameter_count == 4);
  CHECK(overflow.parameters.front() == "fc.bias");
}

TEST_CASE("Out of memory: the advice halves the batch at the same global batch, and offers float16") {
  config::RunPlan plan;
  plan.micro_batch = 64;
  plan.accumulation = 2;
  plan.world_size = 1;
  const auto text = train::out_of_memory_advice(plan, {12.5, 14.0}, "tried to allocate 2 GiB");
  CHECK_THAT(text, ContainsSubstring("peak 12.5 GiB allocated, 14 GiB reserved"));
  CHECK_THAT(text, ContainsSubstring(
                       "data.batch_size=32 train.gradient_accumulation_steps=4 (global batch 128, as now)"));
  CHECK_THAT(text, ContainsSubstring("amp.dtype=float16"));
  CHECK_THAT(text, ContainsSubstring("tried to allocate 2 GiB"));
  plan.precision = config::Precision::bfloat16;
  CHECK(train::out_of_memory_advice(plan, {}, "").find("amp.dtype") == std::string::npos);
  plan.micro_batch = 1;
  CHECK_THAT(train::out_of_memory_advice(plan, {}, ""), ContainsSubstring("smaller model or input"));
}

}  // namespace
}  // namespace ampctl
