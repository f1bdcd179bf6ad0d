// Requests to stop, to the launcher or to any worker: all ranks agree, save and end with 75.
#include <csignal>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "e2e/distributed/jobs.h"
#include "support/catch.h"
#include "support/matchers.h"

namespace ampctl::test {
namespace {

using namespace std::chrono_literals;

const std::vector<std::string> kLong{"train.steps=500", "log.every_steps=1", "checkpoint.every_steps=10000"};

}  // namespace

TEST_CASE("A signal to the launcher or to one worker: all save at one step, 75, and the next start goes on") {
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  const fs::path run = workspace.run_folder("stopped");
  struct Request {
    std::optional<int64_t> rank;  // nothing: the launcher
    int signal;
    const char* name;
  };
  int64_t begin = 0;
  for (const Request& request :
       {Request{{}, SIGTERM, "SIGTERM"}, Request{{}, SIGUSR1, "SIGUSR1"}, Request{{}, SIGINT, "SIGINT"},
        Request{1, SIGTERM, "SIGTERM"}, Request{0, SIGUSR1, "SIGUSR1"}}) {
    Job job(workspace, "stopped", ranks(workspace.command("stopped", kLong), 2));
    REQUIRE(eventually([&] { return last_step(run) > begin + 5; }, kRunLimit));
    if (request.rank) {
      job.signal_worker(*request.rank, request.signal);
    } else {
      job.signal(request.signal);
    }
    const int code = job.exit_code(kEnd);
    INFO(job.output() << rank_logs(run, 1));
    REQUIRE(code == kPreempted);
    CHECK_THAT(job.output() + rank_logs(run, 1), ContainsSubstring("received " + std::string(request.name)));
    CHECK(job.all_gone());
    CHECK_NOTHROW(checkpoint::verify(latest(run)));
    CHECK(state(latest(run)).at("progress").at("windows") == last_step(run));
    begin = last_step(run);
  }
  REQUIRE(test::run(ranks(workspace.command("stopped", kLong), 2), {}, kRunLimit).exit_code == 0);
  REQUIRE(test::run(ranks(workspace.command("whole", kLong), 2), {}, kRunLimit).exit_code == 0);
  CHECK(checkpoint_difference(latest(run), latest(workspace.run_folder("whole"))).empty());
  CHECK(metrics_with(run, "train/loss").size() == 500);
}

TEST_CASE("A signal while the ranks still start ends with 75, and nothing is left behind") {
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  for (const auto delay : {20ms, 200ms, 600ms, 1000ms}) {
    Job job(workspace, "run", ranks(workspace.command("run", kLong), 2));
    std::this_thread::sleep_for(delay);
    job.signal(SIGTERM);
    const int code = job.exit_code(kEnd);
    INFO("after " << delay.count() << " ms:\n" << job.output() << rank_logs(workspace.run_folder("run"), 1));
    // Before the launcher is one, SIGTERM ends it as it ends every program.
    CHECK((code == kPreempted || (delay < 100ms && code == 128 + SIGTERM)));
    CHECK(job.all_gone());
  }
}

TEST_CASE("A second SIGINT ends launcher and workers at once with 130") {
  const Workspace workspace(kJoinedMlp, images_of(1000, 12));
  const fs::path run = workspace.run_folder("run");
  // A window of many seconds, so that the first request is still being answered.
  const std::vector<std::string> overrides{"data.global_batch_size=1000", "data.batch_size=1",
                                           "train.gradient_accumulation_steps=null",
                                           "model.hidden_sizes=[2048, 2048]", "train.steps=3"};
  Job job(workspace, "run", ranks(workspace.command("run", overrides), 2));
  REQUIRE(eventually([&] { return fs::exists(run / "train.log"); }, kRunLimit));
  std::this_thread::sleep_for(1s);
  job.signal(SIGINT);
  CHECK_FALSE(job.wait(1s).has_value());
  job.signal(SIGINT);
  const int code = job.exit_code(5s);
  INFO(job.output());
  CHECK(code == 128 + SIGINT);
  CHECK(job.all_gone(5s));
  CHECK(last_step(run) == 0);
}

}  // namespace ampctl::test
