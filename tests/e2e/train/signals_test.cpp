// Requests to stop: at any moment they end in exit code 75 and lose nothing.
#include <csignal>
#include <fstream>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "e2e/train/runs.h"
#include "support/catch.h"
#include "support/matchers.h"

namespace ampctl::test {
namespace {

using namespace std::chrono_literals;

constexpr int kInterrupted = 130;

bool is_worker(const BackgroundProcess& process) {
  std::ifstream file("/proc/" + std::to_string(process.pid()) + "/comm");
  std::string name;
  std::getline(file, name);
  return name == "ampctl-worker";
}

void check_stopped(const fs::path& run, BackgroundProcess& process, const std::string& signal) {
  REQUIRE(process.wait(20s).value_or(-1) == kPreempted);
  INFO(process.output());
  CHECK_THAT(process.output(), ContainsSubstring("received " + signal));
  const fs::path checkpoint = latest(run);
  CHECK_NOTHROW(checkpoint::verify(checkpoint));
  CHECK(state(checkpoint).at("progress").at("windows") == last_step(run));
}

}  // namespace

TEST_CASE("SIGTERM, SIGINT and SIGUSR1 end a run with 75 after a checkpoint of the step where it stopped") {
  const Workspace workspace(kMlpExperiment);
  const std::vector<std::string> overrides{"train.epochs=90", "checkpoint.every_epochs=90",
                                           "checkpoint.every_steps=null"};
  REQUIRE(workspace.train("whole", overrides).exit_code == 0);
  const fs::path run = workspace.run_folder("stopped");
  int64_t begin = 0;
  for (const auto& [number, name] :
       {std::pair{SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}, {SIGUSR1, "SIGUSR1"}}) {
    auto process = workspace.start("stopped", overrides);
    REQUIRE(eventually([&] { return last_step(run) > begin + 5; }, kRunLimit));
    process.signal(number);
    check_stopped(run, process, name);
    CHECK(last_step(run) > begin);
    begin = last_step(run);
  }
  const auto rest = workspace.train("stopped", overrides);
  INFO(rest.out << rest.err);
  REQUIRE(rest.exit_code == 0);
  CHECK(checkpoint_difference(latest(run), latest(workspace.run_folder("whole"))).empty());
}

TEST_CASE("A stop request during start-up ends with 75, and the same command then does the whole run") {
  const Workspace workspace(kMlpExperiment);
  const fs::path run = workspace.run_folder("stopped");
  for (const auto delay : {0ms, 50ms, 200ms, 500ms}) {
    for (const int number : {SIGTERM, SIGINT}) {
      INFO("signal " << number << " after " << delay.count() << " ms");
      auto process = workspace.start(
          "stopped", {"train.epochs=3000", "lr_schedule.name=constant", "checkpoint.every_steps=50"});
      REQUIRE(eventually([&] { return is_worker(process); }, kRunLimit));
      std::this_thread::sleep_for(delay);
      process.signal(number);
      REQUIRE(process.wait(20s).value_or(-1) == kPreempted);
      for (const int64_t step : checkpoint::list(run / "checkpoints"))
        CHECK_NOTHROW(checkpoint::verify(run / "checkpoints" / checkpoint::folder_name(step)));
    }
  }
  // Further than a fast machine gets in the pieces above, where it has time to train a little.
  const std::vector<std::string> overrides{"train.epochs=300", "lr_schedule.name=constant",
                                           "checkpoint.every_steps=500"};
  REQUIRE(workspace.train("stopped", overrides).exit_code == 0);
  REQUIRE(workspace.train("whole", overrides).exit_code == 0);
  CHECK(checkpoint_difference(latest(run), latest(workspace.run_folder("whole"))).empty());
}

TEST_CASE("A stop request during an evaluation is answered at once, and the evaluation made up for") {
  Images images;
  images.count = 1200;
  const Workspace workspace(kResNetExperiment, images);
  // Sample by sample: an evaluation of seconds.
  const std::vector<std::string> overrides{"data.split.eval_fraction=0.4", "eval.batch_size=1",
                                           "train.epochs=null", "train.steps=2", "amp.dtype=float32"};
  const fs::path run = workspace.run_folder("stopped");
  auto process = workspace.start("stopped", overrides);
  REQUIRE(eventually([&] { return last_step(run) == 2; }, kRunLimit));
  std::this_thread::sleep_for(300ms);
  const auto start = std::chrono::steady_clock::now();
  process.signal(SIGTERM);
  check_stopped(run, process, "SIGTERM");
  CHECK(std::chrono::steady_clock::now() - start < 10s);
  CHECK(metrics_with(run, "eval/top1").empty());

  SECTION("by the run that resumes it") { REQUIRE(workspace.train("stopped", overrides).exit_code == 0); }
  SECTION("by the next one, when that is killed between the evaluation and its checkpoint") {
    auto killed = workspace.start("stopped", overrides);
    REQUIRE(eventually([&] { return !metrics_with(run, "eval/top1").empty(); }, kRunLimit));
    killed.signal(SIGKILL);
    killed.wait(kRunLimit);
    REQUIRE(workspace.train("stopped", overrides).exit_code == 0);
  }
  const auto evaluations = metrics_with(run, "eval/top1");
  REQUIRE(evaluations.size() == 1);
  CHECK(evaluations[0].at("eval/samples") == 480);
  CHECK(metrics_with(run, "train/loss").size() == 2);
  CHECK(summary(run).size() == 2);
  CHECK(state(latest(run)).at("progress").at("last_evaluated") == 2);
}

TEST_CASE("A second SIGINT ends the run at once with 130") {
  Images images;
  images.count = 2000;
  const Workspace workspace(kResNetExperiment, images);
  // One step is the whole epoch, many seconds long.
  auto process = workspace.start("run", {"data.batch_size=10", "train.gradient_accumulation_steps=160"});
  REQUIRE(eventually([&] { return fs::exists(workspace.run_folder("run") / "train.log"); }, kRunLimit));
  std::this_thread::sleep_for(1s);
  process.signal(SIGINT);
  CHECK_FALSE(process.wait(1s).has_value());
  process.signal(SIGINT);
  CHECK(process.wait(2s).value_or(-1) == kInterrupted);
  CHECK(last_step(workspace.run_folder("run")) == 0);
}

}  // namespace ampctl::test
