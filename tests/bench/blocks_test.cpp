#include "bench/blocks.h"

#include <chrono>
#include <string>
#include <thread>

#include "support/catch.h"

namespace bench = ampctl::bench;
using namespace std::chrono_literals;

namespace {

// Writes down what is called: w for a window, s for a step, a for the end of a block, f for the first step.
struct Script {
  std::string calls;
  int windows = 1000;  // there are so many

  bench::Subject subject() {
    const auto run = [this](const bench::Window&) {
      calls += 's';
      std::this_thread::sleep_for(4ms);
    };
    return {[this]() -> bench::Window {
              if (windows-- == 0) return {};
              calls += 'w';
              std::this_thread::sleep_for(2ms);
              return bench::Window(1);
            },
            run, run, [this] { calls += 'a'; }, c10::kCPU};
  }
};

}  // namespace

TEST_CASE("Warm-up comes first, then blocks; each step has its window") {
  Script script;
  const auto times = bench::time_blocks(script.subject(), {2, 3, 2}, [&] { script.calls += 'f'; });
  CHECK(script.calls == "wsfwsawswswsawswswsa");
  CHECK(times.completed);
  REQUIRE(times.step_seconds.size() == 2);
  REQUIRE(times.data_wait_seconds.size() == 2);
}

TEST_CASE("A step's time holds the wait for its data, which is told apart") {
  Script script;
  const auto times = bench::time_blocks(script.subject(), {1, 5, 1}, [] {});
  CHECK(times.step_seconds[0] >= 0.006);
  CHECK(times.step_seconds[0] < 0.5);
  CHECK(times.data_wait_seconds[0] >= 0.002);
  CHECK(times.data_wait_seconds[0] <= times.step_seconds[0] - 0.004);
}

TEST_CASE("An empty window ends a measurement, which then is not complete") {
  for (const int windows : {0, 1, 3}) {
    Script script;
    script.windows = windows;
    CHECK_FALSE(bench::time_blocks(script.subject(), {2, 3, 2}, [] {}).completed);
  }
}
