// Hundreds of processes on one machine.
#include <csignal>

#include "e2e/launcher.h"
#include "support/catch.h"
#include "support/matchers.h"

using namespace ampctl::test;
using Clock = std::chrono::steady_clock;

namespace {

const std::vector<std::string> kMany{"--nproc-per-node", "512"};

}  // namespace

TEST_CASE("512 processes start, meet and leave") {
  const LightRun light;
  const auto result = light.run(kMany);
  INFO(result.err.substr(0, 2000));
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, ContainsSubstring("met 512"));
  CHECK(light.workers().empty());
}

TEST_CASE("One of 512 killed ends all within ten seconds, and is named") {
  for (const char* deaf : {"", "peers"}) {
    const LightRun light;
    const auto launcher = light.start(kMany, {"LIGHT_HOLD=-1", std::string("LIGHT_DEAF=") + deaf});
    REQUIRE(eventually([&] { return launcher->output().find("met 512") != std::string::npos; },
                       std::chrono::seconds(120)));
    kill(light.workers().at(300), SIGKILL);
    const auto killed = Clock::now();
    CHECK(launcher->wait(std::chrono::seconds(60)) == 5);
    CHECK(Clock::now() - killed < std::chrono::seconds(10));
    CHECK_THAT(launcher->output(), ContainsSubstring("rank 300 on ") && ContainsSubstring("signal 9"));
    CHECK(light.workers().empty());
  }
}
