// A run goes on with another number of processes: the same global batch and order of samples, or a refusal.
#include <csignal>

#include "e2e/distributed/jobs.h"
#include "support/catch.h"
#include "support/matchers.h"

namespace ampctl::test {

TEST_CASE("A run that stopped on two processes goes on with one, and with three, to the same result") {
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  const std::vector<std::string> overrides{"train.steps=400", "log.every_steps=1"};
  const fs::path folder = workspace.run_folder("run");
  Job job(workspace, "run", ranks(workspace.command("run", overrides), 2));
  REQUIRE(eventually([&] { return last_step(folder) > 20; }, kRunLimit));
  job.signal(SIGTERM);
  REQUIRE(job.exit_code(kEnd) == kPreempted);
  REQUIRE(last_step(folder) < 400);

  const int count = GENERATE(1, 3);
  const auto rest = run(ranks(workspace.command("run", overrides), count), {}, kRunLimit);
  INFO(rest.out << rest.err);
  REQUIRE(rest.exit_code == 0);
  REQUIRE(workspace.train("one", overrides).exit_code == 0);
  // Eight times as many steps as elsewhere, so rounding has grown.
  CHECK(weights_distance(latest(folder), latest(workspace.run_folder("one"))) < 10 * kRounding);
  CHECK(metrics_with(folder, "train/loss").size() == 400);
}

TEST_CASE("A run whose global batch would change, or does not divide, is refused with the arithmetic") {
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  const std::vector<std::string> by_process{"data.global_batch_size=null", "data.batch_size=12"};
  REQUIRE(run(ranks(workspace.command("run", by_process), 2), {}, kRunLimit).exit_code == 0);
  const std::string before = read_file(workspace.run_folder("run") / "metrics.jsonl");

  const auto changed = workspace.train("run", joined(by_process, {"train.steps=60"}));
  INFO(changed.out << changed.err);
  CHECK(changed.exit_code == kUsage);
  CHECK_THAT(changed.err, ContainsSubstring("data.global_batch_size: 24 in the checkpoint, 12 now"));
  CHECK(read_file(workspace.run_folder("run") / "metrics.jsonl") == before);

  const auto uneven = run(ranks(workspace.command("run", {"train.steps=60"}), 5), {}, kRunLimit);
  INFO(uneven.out << uneven.err);
  CHECK(uneven.exit_code == kUsage);
  CHECK_THAT(uneven.err, ContainsSubstring("5 processes"));
  CHECK_THAT(uneven.err, ContainsSubstring("24"));
}

}  // namespace ampctl::test
