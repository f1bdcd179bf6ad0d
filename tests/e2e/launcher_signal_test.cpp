// Requests to stop, and what becomes of the workers when something happens to their launcher.
#include <csignal>

#include "e2e/launcher.h"
#include "support/catch.h"
#include "support/matchers.h"

using namespace ampctl::test;

namespace {

const std::vector<std::string> kTwo{"--nproc-per-node", "2", "--max-restarts", "3"};

std::unique_ptr<BackgroundProcess> start_and_meet(const LightRun& light,
                                                  const std::vector<std::string>& env) {
  auto launcher = light.start(kTwo, env);
  REQUIRE(light.has_workers(2));
  REQUIRE(eventually([&] { return launcher->output().find("met 2") != std::string::npos; }, kSoon));
  return launcher;
}

}  // namespace

TEST_CASE("Requests to stop are passed on to every worker, and 75 is the end") {
  for (const int number : {SIGTERM, SIGINT, SIGUSR1}) {
    CAPTURE(number);
    const LightRun light;
    const auto launcher = start_and_meet(light, {"LIGHT_HOLD=-1", "LIGHT_DEAF=peers"});
    launcher->signal(number);
    CHECK(launcher->wait(kSoon) == 75);
    const auto asked = "asked to stop by signal " + std::to_string(number);
    CHECK_THAT(launcher->output(), ContainsSubstring("\nlight worker: " + asked) &&
                                       ContainsSubstring("[rank1] light worker: " + asked) &&
                                       !ContainsSubstring("restart 1"));
    CHECK(light.workers().empty());
  }
}

TEST_CASE("A worker that was asked alone takes the others along") {
  const LightRun light;
  const auto launcher = start_and_meet(light, {"LIGHT_HOLD=-1", "LIGHT_DEAF=peers"});
  kill(light.workers().at(1), SIGTERM);
  CHECK(launcher->wait(kSoon) == 75);
}

TEST_CASE("A second Ctrl-C ends workers that do not heed it") {
  const LightRun light;
  const auto launcher = start_and_meet(light, {"LIGHT_HOLD=-1", "LIGHT_DEAF=all"});
  launcher->signal(SIGINT);
  CHECK_FALSE(launcher->wait(std::chrono::milliseconds(500)));
  launcher->signal(SIGINT);
  CHECK(launcher->wait(kSoon) == 130);
  CHECK(light.workers().empty());
}

TEST_CASE("A vanished terminal ends nothing") {
  const LightRun light;
  const auto launcher = start_and_meet(light, {"LIGHT_HOLD=1000"});
  launcher->signal(SIGHUP);
  CHECK(launcher->wait(kSoon) == 0);
}

TEST_CASE("A stopped launcher holds up no worker, and sees their ends when it goes on") {
  const LightRun light;
  const auto launcher = start_and_meet(light, {"LIGHT_HOLD=1000"});
  launcher->signal(SIGSTOP);
  CHECK(light.has_workers(0));
  launcher->signal(SIGCONT);
  CHECK(launcher->wait(kSoon) == 0);
}

TEST_CASE("A killed launcher takes its workers along, which say why") {
  const LightRun light;
  const auto launcher = start_and_meet(light, {"LIGHT_HOLD=-1", "LIGHT_DEAF=peers"});
  launcher->signal(SIGKILL);
  CHECK(light.has_workers(0));
  CHECK_THAT(LightRun::text(light.logs() / "attempt_0/1/stderr.log"),
             ContainsSubstring("the launcher is gone"));
}
