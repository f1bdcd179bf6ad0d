// A worker fails: the launcher says which, why and first, ends the others, and leaves nothing behind.
#include <csignal>

#include "e2e/launcher.h"
#include "e2e/programs.h"
#include "support/catch.h"
#include "support/matchers.h"

using namespace ampctl::test;
using Clock = std::chrono::steady_clock;

namespace {

const std::vector<std::string> kThree{"--nproc-per-node", "3"};

}  // namespace

TEST_CASE("A failing worker's rank, exit code and message are named, and its exit code is the launcher's") {
  const LightRun light;
  const auto result = light.run(kThree, {"LIGHT_DO=1:error:3", "LIGHT_HOLD=-1", "LIGHT_SAY=hello"});
  CHECK(result.exit_code == 3);
  CHECK_THAT(result.err, ContainsSubstring("rank 1 on ") && ContainsSubstring("exit code 3") &&
                             ContainsSubstring("it says: rank was told to fail") &&
                             ContainsSubstring("ranks 0,2 exit code 5") &&
                             ContainsSubstring("attempt_0/1/stderr.log"));
  CHECK_THAT(LightRun::text(light.logs() / "launcher.log"), ContainsSubstring("rank was told to fail"));
  CHECK(light.workers().empty());
}

TEST_CASE("Every exit code of a worker is handed on, and a signal is 5") {
  const LightRun light;
  for (const int code : {1, 2, 4, 5}) {
    CAPTURE(code);
    CHECK(light.run(kThree, {"LIGHT_HOLD=-1", "LIGHT_DO=2:exit:" + std::to_string(code)}).exit_code == code);
  }
  const auto result = light.run(kThree, {"LIGHT_HOLD=-1", "LIGHT_DO=0:signal:9"});
  CHECK(result.exit_code == 5);
  CHECK_THAT(result.err, ContainsSubstring("rank 0 on ") && ContainsSubstring("signal 9 (Killed)"));
}

TEST_CASE("Of failures at the same time the one that only noticed a peer's is not the cause") {
  const LightRun light;
  const auto result = light.run(kThree, {"LIGHT_HOLD=-1", "LIGHT_DO=0:exit:5;1:exit:5;2:exit:4"});
  CHECK(result.exit_code == 4);
  CHECK_THAT(result.err, ContainsSubstring("rank 2 on "));
}

TEST_CASE("An error file of an earlier run is not taken for this one's") {
  const LightRun light;
  CHECK(light.run(kThree, {"LIGHT_HOLD=-1", "LIGHT_DO=1:error:3"}).exit_code == 3);
  const auto result = light.run(kThree, {"LIGHT_HOLD=-1", "LIGHT_DO=1:exit:3"});
  CHECK(result.exit_code == 3);
  CHECK_THAT(result.err, !ContainsSubstring("it says"));
}

TEST_CASE("When a worker cannot be started those that were are ended") {
  const LightRun light;
  // In the way of rank 2's folder.
  write_text(light.logs() / "attempt_0/2", "");
  const auto result = light.run(kThree, {"LIGHT_HOLD=-1", "LIGHT_DEAF=all"});
  CHECK(result.exit_code == 3);
  CHECK_THAT(result.err, ContainsSubstring("attempt_0/2"));
  CHECK(light.workers().empty());
}

TEST_CASE("Workers that heed nothing are killed ten seconds after they were asked") {
  const LightRun light;
  const auto began = Clock::now();
  const auto result = light.run(kThree, {"LIGHT_HOLD=-1", "LIGHT_DEAF=all", "LIGHT_DO=1:exit:3"});
  const auto took = Clock::now() - began;
  CHECK(result.exit_code == 3);
  CHECK_THAT(result.err, ContainsSubstring("ranks 0,2 ended by the launcher"));
  CHECK(took > std::chrono::seconds(10));
  CHECK(took < std::chrono::seconds(20));
  CHECK(light.workers().empty());
}

TEST_CASE("A worker that goes on when the others are done is not waited for for ever") {
  const LightRun light;
  const auto began = Clock::now();
  const auto result = light.run(kThree, {"LIGHT_HOLD=-1", "LIGHT_DEAF=peers", "LIGHT_DO=0:exit:0;1:exit:0"});
  const auto took = Clock::now() - began;
  CHECK(result.exit_code == 75);
  CHECK(took > std::chrono::seconds(15));
  CHECK(took < std::chrono::seconds(25));
  CHECK(light.workers().empty());
}

TEST_CASE("A stopped worker ends with the others, and the report mentions it") {
  const LightRun light;
  const auto launcher = light.start(kThree, {"LIGHT_HOLD=-1", "LIGHT_DEAF=peers"});
  REQUIRE(light.has_workers(3));
  REQUIRE(eventually([&] { return launcher->output().find("met 3") != std::string::npos; }, kSoon));
  const auto workers = light.workers();
  kill(workers.at(2), SIGSTOP);
  kill(workers.at(1), SIGKILL);
  CHECK(launcher->wait(kSoon) == 5);
  CHECK_THAT(launcher->output(), ContainsSubstring("rank 1 on ") && ContainsSubstring("signal 9") &&
                                     ContainsSubstring("(SIGSTOP), which may be why: rank 2"));
  CHECK(light.workers().empty());
}
