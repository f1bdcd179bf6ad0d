// Two processes train as one does on the joined batch.
#include <csignal>

#include "e2e/distributed/jobs.h"
#include "support/catch.h"

namespace ampctl::test {
namespace {

// Trains "one" and "two" and compares: weights, the loss of every step, what was evaluated.
void check_equal_to_one(const Workspace& workspace, const std::vector<std::string>& overrides, int count) {
  const auto one = workspace.train("one", overrides);
  INFO(one.out << one.err);
  REQUIRE(one.exit_code == 0);
  const auto several = run(ranks(workspace.command("several", overrides), count), {}, kRunLimit);
  INFO(several.out << several.err << rank_logs(workspace.run_folder("several"), 1));
  REQUIRE(several.exit_code == 0);

  const fs::path a = workspace.run_folder("several");
  const fs::path b = workspace.run_folder("one");
  CHECK(weights_distance(latest(a), latest(b)) < kRounding);
  CHECK(state(latest(a)).at("progress") == state(latest(b)).at("progress"));
  const auto losses = metrics_with(a, "train/loss");
  const auto expected = metrics_with(b, "train/loss");
  REQUIRE(losses.size() == 50);
  REQUIRE(expected.size() == 50);
  for (size_t i = 0; i < losses.size(); ++i) {
    INFO("step " << i + 1);
    CHECK(losses[i].at("train/loss").get<double>() ==
          Approx(expected[i].at("train/loss").get<double>()).epsilon(1e-4));
  }
  const auto evaluated = metrics_with(a, "eval/top1");
  const auto evaluated_by_one = metrics_with(b, "eval/top1");
  REQUIRE(evaluated.size() == evaluated_by_one.size());
  for (size_t i = 0; i < evaluated.size(); ++i) {
    CHECK(evaluated[i].at("eval/samples") == evaluated_by_one[i].at("eval/samples"));
    CHECK(evaluated[i].at("eval/top1") == evaluated_by_one[i].at("eval/top1"));
  }
}

}  // namespace

TEST_CASE("Two processes train mlp as one does on the joined batch, with a last window of one sample") {
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  const char* accumulation = GENERATE("1", "3");
  check_equal_to_one(workspace, {"train.gradient_accumulation_steps=" + std::string(accumulation)}, 2);
}

TEST_CASE(
    "Two processes train lenet as one does on the joined batch, with unequal shares at an epoch's end") {
  const Workspace workspace(kJoinedLeNet, images_of(197, 28));
  const char* accumulation = GENERATE("1", "3");
  check_equal_to_one(workspace, {"train.gradient_accumulation_steps=" + std::string(accumulation)}, 2);
}

TEST_CASE("Three processes, whose shares never divide evenly, train as one does") {
  const Workspace workspace(kJoinedMlp, images_of(203, 12));
  check_equal_to_one(workspace, {}, 3);
}

TEST_CASE("Sixteen processes train as one does") {
  const Workspace workspace(kJoinedMlp, images_of(203, 12));
  check_equal_to_one(workspace, {"data.global_batch_size=48"}, 16);
}

}  // namespace ampctl::test
