// A worker or the launcher is killed or stopped: everything ends within its time, says why, and leaves
// nothing behind.
#include <csignal>
#include <thread>

#include <unistd.h>

#include "e2e/distributed/jobs.h"
#include "support/catch.h"
#include "support/matchers.h"

namespace ampctl::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kTimeout = 6s;  // distributed.timeout of these runs
const std::vector<std::string> kOften{"distributed.timeout=6", "log.every_steps=5",
                                      "checkpoint.every_steps=25", "eval.every_epochs=20"};
const std::vector<std::string> kEndless = joined(kOften, {"train.steps=1000000"});
const std::vector<std::string> kLong = joined(kOften, {"train.steps=500"});

std::string host_name() {
  std::string name(256, '\0');
  gethostname(name.data(), name.size());
  name.resize(name.find('\0'));
  return name;
}

class Run {
 public:
  Run(const Workspace& workspace, const std::string& name, const std::vector<std::string>& overrides,
      const std::vector<std::string>& flags = {})
      : folder_(workspace.run_folder(name)),
        job(workspace, name, joined(ranks(workspace.command(name, overrides), 2), flags)) {}

  [[nodiscard]] bool trains(int64_t beyond = 30) const {
    return eventually([&] { return last_step(folder_) > beyond; }, kRunLimit);
  }
  /// What anybody said: on the terminal, and in the ranks' files.
  [[nodiscard]] std::string said() const {
    return job.output() + rank_logs(folder_, 0) + rank_logs(folder_, 1);
  }
  [[nodiscard]] const fs::path& folder() const { return folder_; }

 private:
  fs::path folder_;

 public:
  Job job;
};

void check_goes_on_as_if_nothing_happened(const Workspace& workspace, const std::string& name) {
  const auto rest = run(ranks(workspace.command(name, kLong), 2), {}, kRunLimit);
  INFO(rest.out << rest.err);
  REQUIRE(rest.exit_code == 0);
  const auto whole = run(ranks(workspace.command("whole", kLong), 2), {}, kRunLimit);
  REQUIRE(whole.exit_code == 0);
  CHECK(checkpoint_difference(latest(workspace.run_folder(name)), latest(workspace.run_folder("whole")))
            .empty());
}

}  // namespace

TEST_CASE(
    "A killed worker ends the others in seconds: rank, host and signal are named, and a new start goes on") {
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  const int64_t victim = GENERATE(0, 1);
  Run run(workspace, "run", kLong);
  REQUIRE(run.trains());
  const auto start = Clock::now();
  run.job.signal_worker(victim, SIGKILL);
  const int code = run.job.exit_code(kEnd);
  INFO(run.said());
  CHECK(code == kPeer);
  CHECK(Clock::now() - start < 12s);
  CHECK_THAT(run.job.output(), ContainsSubstring("rank " + std::to_string(victim)));
  CHECK_THAT(run.job.output(), ContainsSubstring("signal 9 (Killed)"));
  CHECK_THAT(run.job.output(), ContainsSubstring(host_name()));
  CHECK(run.job.all_gone());
  check_no_torn_checkpoint(run.folder());
  check_goes_on_as_if_nothing_happened(workspace, "run");
}

TEST_CASE("A stopped worker is named within the timeout, with its step, and ended with the others") {
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  const int64_t victim = GENERATE(0, 1);
  Run run(workspace, "run", kLong);
  REQUIRE(run.trains());
  const auto start = Clock::now();
  run.job.signal_worker(victim, SIGSTOP);
  const int code = run.job.exit_code(kTimeout + kEnd);
  INFO(run.said());
  CHECK(code == kPeer);
  CHECK(Clock::now() - start < kTimeout + 15s);
  CHECK_THAT(run.said(), ContainsSubstring("rank " + std::to_string(victim)));
  CHECK_THAT(run.said(), ContainsSubstring("step "));
  CHECK(run.job.all_gone());
  check_no_torn_checkpoint(run.folder());
}

TEST_CASE("With --max-restarts a killed worker costs a restart, and the result is the same") {
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  Run run(workspace, "run", kLong, {"--max-restarts", "1"});
  REQUIRE(run.trains());
  run.job.signal_worker(1, SIGKILL);
  const int code = run.job.exit_code();
  INFO(run.said());
  REQUIRE(code == 0);
  CHECK_THAT(run.job.output(), ContainsSubstring("signal 9 (Killed)"));
  CHECK(run.job.all_gone());
  const auto whole = test::run(ranks(workspace.command("whole", kLong), 2), {}, kRunLimit);
  REQUIRE(whole.exit_code == 0);
  CHECK(checkpoint_difference(latest(run.folder()), latest(workspace.run_folder("whole"))).empty());
}

TEST_CASE("A restart without a checkpoint begins anew, and wrong configurations are not restarted") {
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  Run early(workspace, "early", {"train.steps=300", "log.every_steps=1", "checkpoint.every_steps=100000"},
            {"--max-restarts", "1"});
  REQUIRE(early.trains(3));
  early.job.signal_worker(1, SIGKILL);
  const int code = early.job.exit_code();
  INFO(early.said());
  REQUIRE(code == 0);
  CHECK(metrics_with(early.folder(), "train/loss").size() == 300);

  const auto begin = Clock::now();
  Run wrong(workspace, "wrong", {"model.num_classes=2"}, {"--max-restarts", "5"});
  CHECK(wrong.job.exit_code(kEnd) == kUsage);
  CHECK(Clock::now() - begin < 15s);
}

TEST_CASE("A killed launcher takes its workers along, and they say why") {
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  Run run(workspace, "run", kLong);
  REQUIRE(run.trains());
  SECTION("while it runs") {}
  SECTION("while it is stopped") { run.job.signal(SIGSTOP); }
  run.job.signal(SIGKILL);
  CHECK(run.job.exit_code(kEnd) == kKilled);
  CHECK(run.job.all_gone(20s));
  INFO(run.said());
  CHECK_THAT(rank_logs(run.folder(), 1), ContainsSubstring("launcher"));
  check_no_torn_checkpoint(run.folder());
  check_goes_on_as_if_nothing_happened(workspace, "run");
}

TEST_CASE("A stopped launcher harms nothing") {
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  Run run(workspace, "run", kEndless);
  REQUIRE(run.trains());
  run.job.signal(SIGSTOP);
  const int64_t before = last_step(run.folder());
  std::this_thread::sleep_for(kTimeout + 2s);
  CHECK(last_step(run.folder()) > before);
  CHECK(run.trains(before + 100));
  run.job.signal(SIGCONT);
  run.job.signal(SIGTERM);
  const int code = run.job.exit_code(kEnd);
  INFO(run.said());
  CHECK(code == kPreempted);
  CHECK(run.job.all_gone());
}

TEST_CASE("A request to stop while a rank hangs ends with 5 within 20 s") {
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  Run run(workspace, "run", joined(kEndless, {"distributed.timeout=600"}));
  REQUIRE(run.trains());
  run.job.signal_worker(1, SIGSTOP);
  std::this_thread::sleep_for(1s);
  const auto start = Clock::now();
  run.job.signal(SIGTERM);
  const int code = run.job.exit_code(60s);
  INFO(run.said());
  CHECK(code == kPeer);
  CHECK(Clock::now() - start < 20s);
  CHECK(run.job.all_gone());
}

}  // namespace ampctl::test
