// A run that is killed again and again ends where the uninterrupted one does, bit for bit.
#include <csignal>
#include <random>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "e2e/train/runs.h"
#include "support/catch.h"

namespace ampctl::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// What a kill waits for before its random delay.
enum class Moment { start_up, step, save, evaluation };

constexpr Moment kMoments[] = {Moment::start_up, Moment::step, Moment::save,     Moment::step,
                               Moment::step,     Moment::save, Moment::start_up, Moment::evaluation,
                               Moment::step,     Moment::save};

struct Reference {
  fs::path run;
  std::chrono::milliseconds start_up;  ///< until the first step was logged
  std::chrono::milliseconds step;      ///< mean, with its share of evaluations and saves
};

Reference uninterrupted(const Workspace& workspace, const std::vector<std::string>& overrides) {
  const auto elapsed = [start = Clock::now()] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
  };
  const fs::path run = workspace.run_folder("whole");
  auto process = workspace.start("whole", overrides);
  REQUIRE(eventually([&] { return last_step(run) > 0; }, kRunLimit));
  const auto start_up = elapsed();
  REQUIRE(process.wait(kRunLimit).value_or(-1) == 0);
  return {run, start_up, (elapsed() - start_up) / last_step(run)};
}

bool is_saving(const fs::path& run) {
  std::error_code gone;
  for (fs::directory_iterator it(run / "checkpoints", gone), end; !gone && it != end; it.increment(gone)) {
    if (it->path().filename().string().starts_with(".tmp-step-")) return true;
  }
  return false;
}

/// Evaluations come at the ends of epochs, right after the line of that epoch's last step.
int64_t steps_per_epoch(const fs::path& whole) { return metrics_with(whole, "eval/top1").at(0).at("step"); }

bool reached(Moment moment, const fs::path& run, int64_t begin, int64_t epoch) {
  const int64_t step = last_step(run);
  switch (moment) {
    case Moment::start_up:
      return true;
    case Moment::step:
      return step > begin;
    case Moment::save:
      return step > begin && is_saving(run);
    case Moment::evaluation:
      return step > begin && step % epoch == 0;
  }
  return true;
}

/// Kills a run at a random moment of that kind; returns the step it had logged.
int64_t kill_at(Moment moment, const Workspace& workspace, const std::vector<std::string>& overrides,
                const Reference& whole, std::mt19937& random) {
  const fs::path run = workspace.run_folder("killed");
  const auto done = checkpoint::list(run / "checkpoints");
  const int64_t begin = done.empty() ? 0 : done.back();
  const auto span = moment == Moment::start_up ? whole.start_up : 2 * whole.step;
  const std::chrono::milliseconds delay(random() % static_cast<unsigned>(span.count() + 1));
  const int64_t epoch = steps_per_epoch(whole.run);

  auto process = workspace.start("killed", overrides);
  REQUIRE(eventually([&] { return reached(moment, run, begin, epoch); }, kRunLimit));
  std::this_thread::sleep_for(delay);
  process.signal(SIGKILL);
  INFO("after a delay of " << delay.count() << " ms; the run says " << process.output());
  REQUIRE(process.wait(kRunLimit).value_or(-1) == kKilled);
  return last_step(run);
}

std::vector<int64_t> steps(const std::vector<Json>& lines) {
  std::vector<int64_t> found;
  found.reserve(lines.size());
  for (const auto& line : lines) found.push_back(line.at("step"));
  return found;
}

void check_same_record(const fs::path& run, const fs::path& whole) {
  for (const char* key : {"train/loss", "eval/loss"}) {
    INFO(key);
    const auto expected = metrics_with(whole, key);
    const auto found = metrics_with(run, key);
    CHECK(steps(found) == steps(expected));
    REQUIRE(found.size() == expected.size());
    for (size_t i = 0; i < found.size(); ++i) CHECK(found[i].at(key) == expected[i].at(key));
  }
  const auto expected = summary(whole);
  const auto found = summary(run);
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i].at(0) == expected[i].at(0));
    CHECK(found[i].at(1) == expected[i].at(1));
  }
}

void kill_ten_times(const Workspace& workspace, const std::vector<std::string>& overrides, unsigned seed) {
  const Reference whole = uninterrupted(workspace, overrides);
  const int64_t total = last_step(whole.run);
  REQUIRE(steps(metrics_with(whole.run, "train/loss")).size() == static_cast<size_t>(total));
  std::mt19937 random(seed);
  int after_the_first_step = 0;
  std::string log;
  for (const Moment moment : kMoments) {
    const int64_t step = kill_at(moment, workspace, overrides, whole, random);
    if (step > 0) ++after_the_first_step;
    log += std::to_string(step) + " ";
  }
  INFO("killed after steps " << log << "of " << total);
  CHECK(after_the_first_step >= 7);
  const auto last = workspace.train("killed", overrides);
  INFO(last.out << last.err);
  REQUIRE(last.exit_code == 0);
  const fs::path run = workspace.run_folder("killed");
  CHECK(checkpoint_difference(latest(run), latest(whole.run)).empty());
  check_same_record(run, whole.run);
}

/// Stops a run when it has logged three steps, and lets it go on to its end.
fs::path stopped_and_resumed(const Workspace& workspace, const std::vector<std::string>& first,
                             const std::vector<std::string>& then) {
  fs::path run = workspace.run_folder("resumed");
  auto process = workspace.start("resumed", first);
  REQUIRE(eventually([&] { return last_step(run) >= 3; }, kRunLimit));
  process.signal(SIGTERM);
  REQUIRE(process.wait(kRunLimit).value_or(-1) == kPreempted);
  REQUIRE(workspace.train("resumed", then).exit_code == 0);
  return run;
}

}  // namespace

TEST_CASE("A float16 run with batch norm that is killed ten times ends bit-equal to the uninterrupted one") {
  const Workspace workspace(kResNetExperiment);
  kill_ten_times(workspace, {"train.epochs=5"}, 11);
}

TEST_CASE("A bfloat16 run with dropout that is killed ten times ends bit-equal to the uninterrupted one") {
  const Workspace workspace(kMlpExperiment);
  kill_ten_times(workspace, {"train.epochs=20"}, 12);
}

TEST_CASE("The number of decoding threads changes no bit, also when a run is resumed with another one") {
  const Workspace workspace(kMlpExperiment);
  REQUIRE(workspace.train("whole", {"data.num_workers=0"}).exit_code == 0);
  const fs::path run = stopped_and_resumed(workspace, {"data.num_workers=1"}, {"data.num_workers=3"});
  CHECK(checkpoint_difference(latest(run), latest(workspace.run_folder("whole"))).empty());
}

TEST_CASE(
    "A run with checkpointed activations, stopped and resumed, ends as one that keeps them, bit for bit") {
  const Workspace workspace(kMlpExperiment);
  REQUIRE(workspace.train("whole", {}).exit_code == 0);
  const std::vector<std::string> checkpointed{"train.activation_checkpointing=['fc?']"};
  const fs::path run = stopped_and_resumed(workspace, checkpointed, checkpointed);
  CHECK(checkpoint_difference(latest(run), latest(workspace.run_folder("whole"))).empty());
}

}  // namespace ampctl::test
