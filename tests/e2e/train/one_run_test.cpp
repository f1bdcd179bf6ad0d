// One run a folder at a time.
#include <csignal>

#include "e2e/train/runs.h"
#include "support/catch.h"
#include "support/matchers.h"

namespace ampctl::test {

TEST_CASE("A second run in the same folder is refused while the first lives, and taken after its SIGKILL") {
  const Workspace workspace(kMlpExperiment);
  const fs::path run = workspace.run_folder("run");
  auto first = workspace.start("run", {"train.epochs=2000"});
  REQUIRE(eventually([&] { return last_step(run) > 0; }, kRunLimit));

  const auto second = workspace.train("run");
  CHECK(second.exit_code == kEnvironment);
  CHECK_THAT(second.err, ContainsSubstring(run.string()));
  CHECK_THAT(second.err, ContainsSubstring("process " + std::to_string(first.pid()) + " "));

  const fs::path other_name = workspace.root() / "other-name";
  fs::create_directory_symlink(run, other_name);
  CHECK(workspace.train("other-name").exit_code == kEnvironment);

  const int64_t step = last_step(run);
  CHECK(eventually([&] { return last_step(run) > step; }, kRunLimit));
  first.signal(SIGKILL);
  REQUIRE(first.wait(kRunLimit).value_or(-1) == kKilled);
  // The length of a run may change; here it ends where the first one was.
  const auto third = workspace.train("run", {"train.epochs=1"});
  INFO(third.out << third.err);
  CHECK(third.exit_code == 0);
}

}  // namespace ampctl::test
