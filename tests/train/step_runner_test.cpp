#include "train/step_runner.h"

#include "fixture.h"
#include "support/catch.h"

namespace ampctl {
namespace {

TEST_CASE("On the CPU steps run as they are, without graphs and without a word about it") {
  test::Setup plain{test::SetupOptions{}};
  test::Setup run{test::SetupOptions{}};
  train::GraphOptions options;
  options.obstacle = "there is a reason";
  train::StepRunner runner(*run.step, c10::kCPU, options);
  for (int step = 0; step < 6; ++step) {
    const data::Batch batch = test::make_batch("mlp", 4);
    plain.step->run({batch});
    runner.run({batch});
    CHECK_FALSE(runner.take_notice().has_value());
  }
  CHECK(runner.graphs() == 0);
  const auto expected = plain.state();
  const auto state = run.state();
  REQUIRE(state.size() == expected.size());
  for (size_t i = 0; i < state.size(); ++i) CHECK(state[i].equal(expected[i]));
}

}  // namespace
}  // namespace ampctl
