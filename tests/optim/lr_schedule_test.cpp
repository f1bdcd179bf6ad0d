#include "optim/lr_schedule.h"

#include <fstream>

#include "base/error.h"
#include "support/catch.h"
#include "support/process.h"
#include "support/skip.h"

using namespace ampctl;
using config::LrPlan;

namespace {

LrPlan read_plan(std::istream& in) {
  LrPlan plan;
  size_t milestones = 0;
  in >> plan.name >> plan.base_lr >> plan.warmup_steps >> plan.warmup_start_factor >> plan.total_steps >>
      plan.steps_per_epoch >> plan.step_size >> plan.gamma >> plan.power >> plan.min_lr >> milestones;
  plan.milestones.resize(in ? milestones : 0);
  for (auto& milestone : plan.milestones) in >> milestone;
  return plan;
}

LrPlan plan(const std::string& name) {
  LrPlan result;
  result.name = name;
  result.base_lr = 0.5;
  result.total_steps = 40;
  result.steps_per_epoch = 10;
  return result;
}

}  // namespace

TEST_CASE("Schedules give torch.optim.lr_scheduler's rates at every step") {
  if (!test::python_has({"torch"})) return test::skip("Python has no torch");
  const test::TempDir folder;
  const std::string file = (folder.path() / "lr.txt").string();
  const auto script = (test::source_dir() / "tests/reference/lr_schedule_reference.py").string();
  const auto result = test::run({test::python(), script, file});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);

  std::ifstream in(file);
  int plans = 0;
  for (LrPlan read = read_plan(in); in; read = read_plan(in)) {
    const auto table = optim::lr_table(read);
    REQUIRE(table.size() == static_cast<size_t>(read.total_steps) + 1);
    for (int64_t step = 0; step <= read.total_steps; ++step) {
      double expected = 0.0;
      in >> expected;
      INFO(read.name << ", warm-up of " << read.warmup_steps << ", step " << step);
      // PyTorch multiplies rates step by step, which leaves some rounding errors more than the closed form.
      CHECK(optim::lr_at(read, step) == Approx(expected).epsilon(1e-12).margin(1e-14));
      CHECK(table[static_cast<size_t>(step)] == static_cast<float>(optim::lr_at(read, step)));
    }
    ++plans;
  }
  CHECK(plans == 12);
}

TEST_CASE("Warm-up from zero starts at zero and reaches the base rate at its end") {
  LrPlan cosine = plan("cosine");
  cosine.warmup_steps = 4;
  CHECK(optim::lr_at(cosine, 0) == 0.0);
  CHECK(optim::lr_at(cosine, 1) == 0.125);
  CHECK(optim::lr_at(cosine, 3) == 0.375);
  CHECK(optim::lr_at(cosine, 4) == 0.5);
}

TEST_CASE("A polynomial schedule ends at min_lr") {
  LrPlan polynomial = plan("polynomial");
  polynomial.min_lr = 0.1;
  polynomial.power = 2.0;
  CHECK(optim::lr_at(polynomial, 0) == 0.5);
  CHECK(optim::lr_at(polynomial, 20) == Approx(0.1 + 0.4 * 0.25));
  CHECK(optim::lr_at(polynomial, 40) == Approx(0.1));
}

TEST_CASE("Steps past the end keep the last rate, and a run of warm-up alone is defined") {
  LrPlan cosine = plan("cosine");
  cosine.min_lr = 0.01;
  CHECK(optim::lr_at(cosine, 1000) == Approx(0.01));
  cosine.warmup_steps = 40;
  CHECK(optim::lr_at(cosine, 40) == 0.5);
  CHECK(optim::lr_table(cosine).size() == 41);
}

TEST_CASE("Schedules that cannot be computed are refused") {
  CHECK_THROWS_AS(optim::lr_at(plan("linear"), 0), Error);
  CHECK_THROWS_AS(optim::lr_at(plan("step"), 0), Error);
  LrPlan exponential = plan("exponential");
  exponential.steps_per_epoch = 0;
  CHECK_THROWS_AS(optim::lr_at(exponential, 0), Error);
  CHECK_THROWS_AS(optim::lr_at(plan("constant"), -1), Error);
}
