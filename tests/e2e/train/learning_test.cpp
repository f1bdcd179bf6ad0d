// float16 autocast with the scaler learns as float32 does.
#include <cmath>
#include <numeric>

#include "e2e/train/runs.h"
#include "support/catch.h"
#include "support/skip.h"

namespace ampctl::test {
namespace {

constexpr int kSeeds = 5;

/// Percent of the 2,000 held-out digits, after the last step, a seed each.
std::vector<double> accuracies(const TempDir& folder, const std::string& dtype) {
  std::vector<double> values;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const fs::path output = folder.path() / (dtype + "-" + std::to_string(seed));
    const auto result =
        run({AMPCTL_PROGRAM, "train", "-c", (source_dir() / "configs" / "mnist.yaml").string(), "--output",
             output.string(), "--seed", std::to_string(seed), "--set", "device=cpu", "--set",
             "amp.dtype=" + dtype, "--set", "train.epochs=5", "--set", "checkpoint.every_epochs=5"},
            {"MNIST=" + (shared_data_dir() / "mnist-10k").string()}, kRunLimit);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
    const Json last = metrics_with(output, "eval/top1").back();
    REQUIRE(last.at("eval/samples") == 2000);
    values.push_back(last.at("eval/top1"));
  }
  return values;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

TEST_CASE("LeNet on 8,000 MNIST digits: float16 reaches 97% of the other 2,000 and float32's mean",
          "[learning]") {
  if (shared_data_dir().empty()) return skip("there is no folder with MNIST; AMPCTL_TEST_DATA names it");
  constexpr double kRequired = 97.0;
  constexpr double kClose = 0.3;
  const TempDir folder;
  const double float16 = mean(accuracies(folder, "float16"));
  const double float32 = mean(accuracies(folder, "float32"));
  INFO("float16 " << float16 << "%, float32 " << float32 << "%");
  CHECK(float16 >= kRequired);
  CHECK(std::abs(float16 - float32) <= kClose);
}

}  // namespace ampctl::test
