// --max-restarts: which failures are tried again, and how often.
#include "e2e/launcher.h"
#include "support/catch.h"
#include "support/matchers.h"

using namespace ampctl::test;

namespace {

const std::vector<std::string> kFlags{"--nproc-per-node", "2", "--max-restarts", "2"};

ProcessResult run_with(const LightRun& light, const std::string& order, int attempts) {
  return light.run(kFlags, {"LIGHT_DO=" + order, "LIGHT_ATTEMPTS=" + std::to_string(attempts)});
}

}  // namespace

TEST_CASE("After a failure that may pass all workers start again, with logs of their own") {
  for (const char* order : {"1:signal:9", "1:exit:3", "0:exit:5"}) {
    CAPTURE(order);
    const LightRun light;
    const auto result = run_with(light, order, 2);
    CHECK(result.exit_code == 0);
    CHECK_THAT(result.err, ContainsSubstring("restart 1 of 2") && ContainsSubstring("restart 2 of 2"));
    CHECK(std::filesystem::exists(light.logs() / "attempt_2/1/stderr.log"));
  }
}

TEST_CASE("When no restart is left the last failure is the result") {
  const LightRun light;
  const auto result = run_with(light, "1:error:3", 9);
  CHECK(result.exit_code == 3);
  CHECK_THAT(result.err, ContainsSubstring("restarts used: 2 of 2"));
}

TEST_CASE("Usage, divergence, internal errors and preemption are not tried again") {
  for (const int code : {1, 2, 4, 75}) {
    CAPTURE(code);
    const LightRun light;
    const auto each = std::to_string(code);
    const auto result = run_with(light, "0:exit:" + each + ";1:exit:" + each, 9);
    CHECK(result.exit_code == code);
    CHECK_THAT(result.err, !ContainsSubstring("restart"));
  }
}
