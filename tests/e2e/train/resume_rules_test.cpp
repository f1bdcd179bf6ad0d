// What a run folder that holds something already makes of the next command.
#include <fstream>

#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "e2e/train/runs.h"
#include "support/catch.h"
#include "support/matchers.h"

namespace ampctl::test {
namespace {

/// The byte in the middle of the file, flipped.
void damage(const fs::path& path) {
  std::string bytes = read_file(path);
  bytes[bytes.size() / 2] = static_cast<char>(~bytes[bytes.size() / 2]);
  std::ofstream(path, std::ios::binary) << bytes;
}

void check_equal_runs(const Workspace& workspace, const std::string& a, const std::string& b) {
  CHECK(checkpoint_difference(latest(workspace.run_folder(a)), latest(workspace.run_folder(b))).empty());
}

}  // namespace

TEST_CASE("A run goes on only with the configuration it began with, but for what changes no sample order") {
  const Workspace workspace(kMlpExperiment);
  REQUIRE(workspace.train("run", {"train.epochs=1"}).exit_code == 0);
  const fs::path run = workspace.run_folder("run");
  const std::string before = read_file(run / "metrics.jsonl");

  const auto refused = workspace.train(
      "run", {"train.epochs=2", "seed=8", "model.hidden_sizes=[16]", "model.dropout=0.1",
              "data.shuffle=false", "data.split.seed=3", "optimizer.lr=0.02", "lr_schedule.name=constant",
              "amp.dtype=float16", "train.clip_grad_norm=1", "data.batch_size=4"});
  INFO(refused.out << refused.err);
  CHECK(refused.exit_code == kUsage);
  for (const char* key :
       {"\n  seed: 7 in the checkpoint, 8 now", "\n  model.hidden_sizes: ", "\n  model.dropout: ",
        "\n  data.shuffle: ", "\n  data.split.seed: ", "\n  optimizer.lr: ", "\n  lr_schedule.name: ",
        "\n  amp.dtype: ", "\n  train.clip_grad_norm: ", "\n  data.global_batch_size: "})
    CHECK_THAT(refused.err, ContainsSubstring(key));
  CHECK(refused.err.find("train.epochs") == std::string::npos);
  CHECK(read_file(run / "metrics.jsonl") == before);

  const auto goes_on = workspace.train(
      "run", {"train.epochs=2", "log.every_steps=3", "log.level=warn", "train.num_threads=2",
              "data.num_workers=0", "data.prefetch_factor=1", "checkpoint.keep=2", "eval.batch_size=5"});
  INFO(goes_on.out << goes_on.err);
  CHECK(goes_on.exit_code == 0);
  CHECK(state(latest(run)).at("progress").at("windows") == 14);
}

TEST_CASE(
    "A finished run says so and exits 0; more epochs continue it as if they had been asked for at first") {
  const Workspace workspace(kMlpExperiment);
  // A constant rate, since a cosine of other length is another one.
  const std::vector<std::string> constant{"lr_schedule.name=constant", "train.epochs=2"};
  REQUIRE(workspace.train("run", constant).exit_code == 0);
  const fs::path checkpoint = latest(workspace.run_folder("run"));
  const std::string before = read_file(workspace.run_folder("run") / "metrics.jsonl");
  const std::string weights = read_file(checkpoint / "model.safetensors");
  const auto again = workspace.train("run", constant);
  INFO(again.out << again.err);
  CHECK(again.exit_code == 0);
  CHECK_THAT(again.out, ContainsSubstring("14 of 14 steps are done"));
  CHECK(read_file(workspace.run_folder("run") / "metrics.jsonl") == before);
  CHECK(latest(workspace.run_folder("run")) == checkpoint);
  CHECK(read_file(checkpoint / "model.safetensors") == weights);

  const std::vector<std::string> longer{"lr_schedule.name=constant", "train.epochs=3"};
  REQUIRE(workspace.train("run", longer).exit_code == 0);
  REQUIRE(workspace.train("whole", longer).exit_code == 0);
  check_equal_runs(workspace, "run", "whole");
}

TEST_CASE(
    "resume never refuses a folder that holds a run; latest wants a checkpoint; auto begins where none is") {
  const Workspace workspace(kMlpExperiment);
  CHECK(workspace.train("run", {"train.epochs=1", "checkpoint.resume=never"}).exit_code == 0);
  const auto refused = workspace.train("run", {"train.epochs=2", "checkpoint.resume=never"});
  CHECK(refused.exit_code == kUsage);
  CHECK_THAT(refused.err, ContainsSubstring(workspace.run_folder("run").string()));
  CHECK_THAT(refused.err, ContainsSubstring("--resume auto"));
  const auto none = workspace.train("empty", {"checkpoint.resume=latest"});
  CHECK(none.exit_code == kEnvironment);
  CHECK_THAT(none.err, ContainsSubstring("there is no checkpoint"));
}

TEST_CASE("A damaged newest checkpoint is reported and the next older one used") {
  const Workspace workspace(kMlpExperiment);
  const fs::path run = workspace.run_folder("run");
  REQUIRE(workspace.train("run", {"train.epochs=1", "lr_schedule.name=constant"}).exit_code == 0);
  const fs::path newest = latest(run);
  const char* file =
      GENERATE("model.safetensors", "optimizer.safetensors", "rank-00000.safetensors", "state.json");
  damage(newest / file);
  const std::vector<std::string> overrides{"lr_schedule.name=constant", "train.epochs=2"};
  const auto resumed = workspace.train("run", overrides);
  INFO(resumed.out << resumed.err);
  REQUIRE(resumed.exit_code == 0);
  CHECK_THAT(resumed.out, ContainsSubstring("the checkpoint of step 7 cannot be used"));
  CHECK_THAT(resumed.out, ContainsSubstring(file));
  CHECK_THAT(resumed.out, ContainsSubstring("step-00000006"));
  CHECK(metrics_with(run, "train/loss").size() == 14);
}

TEST_CASE("Checkpoints of a newer format are refused by name, and nothing is trained over them") {
  const Workspace workspace(kMlpExperiment);
  REQUIRE(workspace.train("run", {"train.epochs=1"}).exit_code == 0);
  const fs::path newest = latest(workspace.run_folder("run"));
  checkpoint::Manifest manifest = checkpoint::read_manifest(newest);
  manifest.format_version = checkpoint::kFormatVersion + 1;
  std::ofstream(newest / "manifest.json") << checkpoint::manifest_text(manifest);
  const auto refused = workspace.train("run", {"train.epochs=2"});
  INFO(refused.out << refused.err);
  CHECK(refused.exit_code == kEnvironment);
  CHECK_THAT(refused.err, ContainsSubstring("this program reads up to"));
}

TEST_CASE("Missing or unfitting data ends the run with 3 before anything is trained") {
  const Workspace workspace(kMlpExperiment);
  const auto missing = workspace.train("run", {"data.train.images=/nowhere/images"});
  CHECK(missing.exit_code == kEnvironment);
  CHECK_THAT(missing.err, ContainsSubstring("/nowhere/images"));
  std::ofstream(workspace.data() / "labels", std::ios::binary | std::ios::trunc) << "no labels";
  const auto unfit = workspace.train("run");
  CHECK(unfit.exit_code == kEnvironment);
  CHECK_THAT(unfit.err, ContainsSubstring((workspace.data() / "labels").string()));
  CHECK_FALSE(fs::exists(workspace.run_folder("run") / "metrics.jsonl"));
}

}  // namespace ampctl::test
