// Training that produces inf or NaN without end stops with exit code 4 and keeps the last good state.
#include "checkpoint/checkpoint.h"
#include "e2e/train/runs.h"
#include "support/catch.h"
#include "support/matchers.h"

namespace ampctl::test {
namespace {

/// Steps that changed something, and the run that made just these.
void check_last_good_state(const Workspace& workspace, const std::vector<std::string>& overrides) {
  const fs::path diverged = latest(workspace.run_folder("diverged"));
  CHECK_NOTHROW(checkpoint::verify(diverged));
  const Json progress = state(diverged).at("progress");
  const int64_t good = progress.at("steps_done");
  REQUIRE(good > 0);
  CHECK(progress.at("skipped_steps") == progress.at("windows").get<int64_t>() - good);
  auto shorter = overrides;
  shorter.push_back("train.steps=" + std::to_string(good));
  REQUIRE(workspace.train("good", shorter).exit_code == 0);
  const fs::path last_good = latest(workspace.run_folder("good"));
  for (const char* file : {"model.safetensors", "optimizer.safetensors"})
    CHECK(read_file(diverged / file) == read_file(last_good / file));
}

}  // namespace

TEST_CASE("A diverging run ends with 4, says why and what to try, and keeps the last good state") {
  const Workspace workspace(kMlpExperiment);
  // One huge update: from then on every output overflows.
  std::vector<std::string> overrides{"optimizer.name=sgd",        "optimizer.lr=1e30",
                                     "lr_schedule.name=constant", "lr_schedule.warmup_steps=null",
                                     "train.epochs=null",         "model.dropout=0"};
  std::string reason;
  std::string advice;
  SECTION("float16, when the scale falls below min_scale") {
    overrides.insert(overrides.end(), {"amp.dtype=float16", "amp.scaler.init_scale=256"});
    reason = "amp.scaler.min_scale is 1";
    advice = "amp.fp32_modules";
  }
  SECTION("float16, after max_consecutive_skips") {
    overrides.insert(overrides.end(), {"amp.dtype=float16", "amp.scaler.max_consecutive_skips=4"});
    reason = "amp.scaler.max_consecutive_skips is 4";
    advice = "amp.dtype=bfloat16";
  }
  SECTION("bfloat16, after max_consecutive_skips") {
    overrides.insert(overrides.end(), {"amp.dtype=bfloat16", "amp.scaler.max_consecutive_skips=6"});
    reason = "amp.scaler.max_consecutive_skips is 6";
    advice = "This precision has no scaler";
  }
  SECTION("float32, after max_consecutive_skips") {
    overrides.insert(overrides.end(), {"amp.dtype=float32", "amp.scaler.max_consecutive_skips=3"});
    reason = "amp.scaler.max_consecutive_skips is 3";
    advice = "look for bad samples in the data";
  }
  auto longer = overrides;
  longer.emplace_back("train.steps=60");
  const auto result = workspace.train("diverged", longer);
  INFO(result.out << result.err);
  CHECK(result.exit_code == kDiverged);
  CHECK_THAT(result.err, ContainsSubstring("training diverged"));
  CHECK_THAT(result.err, ContainsSubstring(reason));
  CHECK_THAT(result.err, ContainsSubstring(advice));
  CHECK_THAT(result.err, ContainsSubstring("optimizer.lr"));
  CHECK_THAT(result.err, ContainsSubstring("docs/mixed-precision.md"));
  const auto skipped = state(latest(workspace.run_folder("diverged"))).at("progress").at("skipped_steps");
  CHECK(metrics_with(workspace.run_folder("diverged"), "train/loss").back().at("amp/skipped_steps") ==
        skipped);
  check_last_good_state(workspace, overrides);
}

TEST_CASE("A run continued after it diverged diverges again instead of ending as done") {
  const Workspace workspace(kMlpExperiment);
  const std::vector<std::string> overrides{"optimizer.name=sgd", "optimizer.lr=1e30",
                                           "lr_schedule.name=constant", "lr_schedule.warmup_steps=null",
                                           "amp.scaler.max_consecutive_skips=4"};
  REQUIRE(workspace.train("run", overrides).exit_code == kDiverged);
  const int64_t step = last_step(workspace.run_folder("run"));
  CHECK(workspace.train("run", overrides).exit_code == kDiverged);
  CHECK(last_step(workspace.run_folder("run")) == step + 4);
}

}  // namespace ampctl::test
