// The quickstart's experiment as it is shipped, on the data that set-up makes.
#include "e2e/train/runs.h"
#include "support/catch.h"
#include "support/skip.h"

namespace ampctl::test {

TEST_CASE("The quickstart reaches 96% of the held-out digits for each of five seeds", "[learning]") {
  if (!python_has({"sklearn"})) return skip("Python has no scikit-learn; scripts/test.sh installs it");
  constexpr double kRequired = 96.0;
  const TempDir folder;
  const fs::path data = folder.path() / "digits";
  REQUIRE(run({python(), (source_dir() / "scripts" / "make_digits.py").string(), data.string()}).exit_code ==
          0);
  for (int seed = 0; seed < 5; ++seed) {
    const fs::path output = folder.path() / ("seed-" + std::to_string(seed));
    const auto result =
        run({AMPCTL_PROGRAM, "train", "-c", (source_dir() / "configs" / "quickstart.yaml").string(),
             "--output", output.string(), "--seed", std::to_string(seed), "--set", "device=cpu", "--set",
             "data.train.images=" + (data / "images-idx3-ubyte").string(), "--set",
             "data.train.labels=" + (data / "labels-idx1-ubyte").string()},
            {}, kRunLimit);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
    const Json last = metrics_with(output, "eval/top1").back();
    CHECK(last.at("eval/samples") == 449);
    CHECK(last.at("eval/top1").get<double>() >= kRequired);
  }
}

}  // namespace ampctl::test
