// What a run leaves in its folder.
#include <set>

#include "checkpoint/checkpoint.h"
#include "e2e/train/runs.h"
#include "support/catch.h"
#include "support/matchers.h"

namespace ampctl::test {
namespace {

std::set<std::string> keys(const Json& line) {
  std::set<std::string> names;
  for (const auto& [name, value] : line.items()) names.insert(name);
  return names;
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

}  // namespace

TEST_CASE(
    "A run's folder holds its configuration, metrics, summary, log and checkpoints under the field's names") {
  const Workspace workspace(kMlpExperiment);
  const auto result = workspace.train("run");
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  const fs::path run = workspace.run_folder("run");
  auto files = names_in(run);
  files.erase(".lock");
  CHECK(files ==
        std::set<std::string>{"config.yaml", "metrics.jsonl", "summary.csv", "train.log", "checkpoints"});

  const auto steps = metrics_with(run, "train/loss");
  REQUIRE(steps.size() == 28);
  for (const char* key : {"step", "epoch", "wall_time", "train/loss", "lr", "amp/scale", "amp/skipped_steps",
                          "grad/norm", "throughput/samples_per_sec", "time/data_wait",
                          "memory/max_allocated_gib", "memory/max_reserved_gib"}) {
    INFO(key);
    CHECK(keys(steps[0]).count(key) == 1);
  }
  const auto evaluations = metrics_with(run, "eval/top1");
  REQUIRE(evaluations.size() == 4);
  for (const char* key : {"step", "epoch", "eval/loss", "eval/top1", "eval/top5"})
    CHECK(keys(evaluations[0]).count(key) == 1);
  CHECK(evaluations[0].at("eval/samples") == 41);

  const auto rows = summary(run);
  REQUIRE(rows.size() == 5);
  CHECK(rows[0] == std::vector<std::string>{"epoch", "step", "train_loss", "eval_loss", "eval_top1",
                                            "eval_top5", "lr", "scale", "skipped_steps", "samples_per_sec",
                                            "seconds"});
  for (size_t epoch = 0; epoch < 4; ++epoch) {
    CHECK(rows[epoch + 1].at(0) == std::to_string(epoch));
    CHECK(rows[epoch + 1].at(1) == std::to_string(7 * (epoch + 1)));
  }

  const fs::path checkpoints = run / "checkpoints";
  CHECK(latest(run).filename() == "step-00000028");
  CHECK(fs::is_symlink(checkpoints / "best"));
  // keep: 3 and the best one.
  CHECK(checkpoint::list(checkpoints).size() <= 4);
  for (const int64_t step : checkpoint::list(checkpoints))
    CHECK_NOTHROW(checkpoint::verify(checkpoints / checkpoint::folder_name(step)));
}

TEST_CASE("The best link points at the checkpoint of the best evaluation, which retention keeps") {
  const Workspace workspace(kMlpExperiment);
  REQUIRE(workspace.train("run", {"checkpoint.keep=1"}).exit_code == 0);
  const fs::path run = workspace.run_folder("run");
  double best = -1;
  int64_t step = 0;
  for (const auto& line : metrics_with(run, "eval/top1")) {
    if (line.at("eval/top1").get<double>() <= best) continue;
    best = line.at("eval/top1");
    step = line.at("step");
  }
  CHECK(fs::canonical(run / "checkpoints" / "best").filename() == checkpoint::folder_name(step));
  CHECK_NOTHROW(checkpoint::verify(fs::canonical(run / "checkpoints" / "best")));
}

TEST_CASE("config.yaml of a run repeats it bit for bit") {
  const Workspace workspace(kMlpExperiment);
  REQUIRE(workspace.train("run", {"optimizer.lr=0.003", "seed=99"}).exit_code == 0);
  const fs::path again = workspace.run_folder("again");
  const auto result =
      run({AMPCTL_PROGRAM, "train", "-c", (workspace.run_folder("run") / "config.yaml").string(), "--output",
           again.string()});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(checkpoint_difference(latest(again), latest(workspace.run_folder("run"))).empty());
  REQUIRE(workspace.train("other", {"optimizer.lr=0.003", "seed=98"}).exit_code == 0);
  CHECK_FALSE(checkpoint_difference(latest(workspace.run_folder("other")), latest(again)).empty());
}

}  // namespace ampctl::test
