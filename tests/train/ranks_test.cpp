// Training steps of several real processes over Gloo against one process on the joined batch.
#include <cmath>
#include <map>
#include <memory>
#include <sstream>
#include <vector>

#include <ATen/Context.h>

#include "data/shard.h"
#include "ranks_scenario.h"
#include "support/background_process.h"
#include "support/catch.h"
#include "support/free_port.h"
#include "support/process.h"
#include "support/skip.h"

namespace ampctl {
namespace {

constexpr std::chrono::seconds kLimit{120};

using Facts = std::map<std::string, std::vector<double>>;

Facts parse(const std::string& text) {
  Facts facts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    for (std::string word; words >> word;) facts[name].push_back(std::stod(word));
  }
  return facts;
}

/// What each of `size` processes ends the scenario with.
std::vector<Facts> run_ranks(const std::string& scenario, int size, const std::string& device = "cpu") {
  const test::TempDir folder;
  const std::string port = std::to_string(test::free_port());
  std::vector<std::unique_ptr<test::BackgroundProcess>> processes;
  processes.reserve(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    processes.push_back(std::make_unique<test::BackgroundProcess>(
        std::vector<std::string>{AMPCTL_RANK_PROGRAM, scenario, std::to_string(rank), std::to_string(size),
                                 port, device},
        folder.path() / std::to_string(rank)));
  }
  std::vector<Facts> endings;
  for (auto& process : processes) {
    const auto code = process->wait(kLimit);
    INFO(process->output());
    REQUIRE(code == 0);
    endings.push_back(parse(process->output()));
  }
  return endings;
}

Facts run_alone(const std::string& name, c10::Device device = c10::kCPU) {
  return parse(to_text(test::train(test::scenario(name), dist::World::alone(device))));
}

double relative_l2(const std::vector<double>& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  double difference = 0.0;
  double size = 0.0;
  for (size_t i = 0; i < found.size(); ++i) {
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(difference / size);
}

// Two ranks end alike, and as two ranks of the other scenario do, to the last bit.
void check_same(const std::string& scenario, const std::string& other, const std::string& device) {
  const auto ranks = run_ranks(scenario, 2, device);
  CHECK(ranks[0] == ranks[1]);
  CHECK(ranks[0] == run_ranks(other, 2, device)[0]);
}

TEST_CASE("Ranks take the steps of one process on the joined batch, also when a share is short or empty") {
  for (const std::string scenario : {"whole", "uneven", "clipped", "checkpointed"}) {
    CAPTURE(scenario);
    const Facts alone = run_alone(scenario == "checkpointed" ? "uneven" : scenario);
    const auto ranks = run_ranks(scenario, 2);
    for (const auto& rank : ranks) {
      CHECK(relative_l2(rank.at("parameters"), alone.at("parameters")) < 1e-6);
      CHECK(relative_l2(rank.at("losses"), alone.at("losses")) < 1e-6);
    }
    CHECK(ranks[0] == ranks[1]);
  }
}

TEST_CASE("Ranks that read working weights, whose gradients are made in the buckets, equal ranks that cast") {
  check_same("working", "casting", "cpu");
}

TEST_CASE("Two GPUs that read working weights equal two that cast, in a window of one batch and of several",
          "[gpu]") {
  if (at::getNumGPUs() < 2) return test::skip("there are no two GPUs");
  check_same("working", "casting", "cuda");
}

TEST_CASE("Two GPUs whose norms write their gradients into the buckets equal two that copy them there",
          "[gpu]") {
  if (at::getNumGPUs() < 2) return test::skip("there are no two GPUs");
  check_same("placed_norms", "copied_norms", "cuda");
}

TEST_CASE("Two GPUs replay graphs, step eagerly in between and meet outside of steps as eager ones do",
          "[gpu]") {
  if (at::getNumGPUs() < 2) return test::skip("there are no two GPUs");
  check_same("captured", "eager", "cuda");
}

TEST_CASE("Synchronised batch norm makes ranks equal to one process on the joined batch, uneven shares too") {
  const Facts alone = run_alone("sync_batch_norm");
  for (const auto& rank : run_ranks("sync_batch_norm", 2))
    CHECK(relative_l2(rank.at("parameters"), alone.at("parameters")) < 1e-10);
}

TEST_CASE("Two GPUs take the steps of one, with synchronised batch norm and without, and skip together",
          "[gpu]") {
  if (at::getNumGPUs() < 2) return test::skip("there are no two GPUs");
  for (const std::string scenario : {"uneven", "sync_batch_norm"}) {
    CAPTURE(scenario);
    const Facts alone = run_alone(scenario, {c10::kCUDA, 0});
    const auto ranks = run_ranks(scenario, 2, "cuda");
    for (const auto& rank : ranks) CHECK(relative_l2(rank.at("parameters"), alone.at("parameters")) < 1e-5);
    CHECK(ranks[0] == ranks[1]);
  }
  for (const auto& rank : run_ranks("overflow", 2, "cuda")) {
    CHECK(rank.at("skips") == std::vector<double>{0, 0, 1, 0, 0});
    CHECK(rank.at("scale") == std::vector<double>{32768.0});
  }
}

TEST_CASE("Samples left out on any rank are left out of the mean over all") {
  const auto ranks = run_ranks("lost", 3);
  // One process that loses the same samples: those at the end of each rank's micro-batches.
  test::Scenario same = test::scenario("lost");
  same.lose_samples = false;
  test::Setup setup{same.setup};
  for (size_t step = 0; step < same.windows.size(); ++step) {
    at::manual_seed(100 + step);
    const data::Batch whole = test::make_batch("mlp", same.windows[step]);
    std::vector<data::Batch> kept;
    for (int64_t rank = 0; rank < 3; ++rank) {
      const auto share = data::share_of({0, same.windows[step]}, rank, 3);
      for (int64_t taken = 0; taken < share.count; taken += same.micro_batch) {
        const int64_t count = std::min(same.micro_batch, share.count - taken) - 1;
        data::Batch batch;
        batch.images = whole.images.narrow(0, share.start + taken, count);
        batch.targets = whole.targets.narrow(0, share.start + taken, count);
        batch.size = count;
        batch.consumed = count;
        if (count > 0) kept.push_back(batch);
      }
    }
    setup.step->run(kept);
  }
  std::vector<double> expected;
  for (const auto& parameter : setup.parameters()) {
    const at::Tensor values = parameter.to(at::kDouble).contiguous().view({-1});
    expected.insert(expected.end(), values.const_data_ptr<double>(),
                    values.const_data_ptr<double>() + values.numel());
  }
  for (const auto& rank : ranks) CHECK(relative_l2(rank.at("parameters"), expected) < 1e-6);
}

TEST_CASE("An overflow on one rank makes every rank skip, and the scale back off once, everywhere") {
  const auto ranks = run_ranks("overflow", 2);
  for (const auto& rank : ranks) {
    CHECK(rank.at("skips") == std::vector<double>{0, 0, 1, 0, 0});
    CHECK(rank.at("scale") == std::vector<double>{32768.0});
    CHECK(rank.at("steps_done") == std::vector<double>{4});
  }
  CHECK(ranks[0].at("parameters") == ranks[1].at("parameters"));
}

}  // namespace
}  // namespace ampctl
