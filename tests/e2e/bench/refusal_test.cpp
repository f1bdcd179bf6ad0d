// What is refused before anything is measured.
#include "e2e/bench/runs.h"
#include "support/catch.h"
#include "support/matchers.h"

using namespace ampctl::test;

TEST_CASE("Comparisons that make no sense are refused with what was expected") {
  const BenchRun bench;
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& part) {
    const auto result = bench.run(arguments);
    INFO(result.err);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, ContainsSubstring(part));
    CHECK_FALSE(result.err.find("first step") != std::string::npos);
  };
  refused({"--compare", "amp.dtype"}, "--compare: expected KEY=VALUE,VALUE");
  refused({"--compare", "amp.dtype=float32,,float16"}, "where one is empty");
  refused({"--compare", "seed=1,2,1"}, "found 1 twice");
  refused({"--compare", "seed=1,2", "--compare", "seed=3"}, "was given twice");
  // Every variant is checked before the first is measured.
  refused({"--compare", "amp.dtype=float32,float61"}, "float61");
  refused({"--compare", "amp.dtypo=float32"}, "did you mean");
  refused({"--steps", "0"}, "--steps");
  refused({"stray.yaml"}, "is not of the form key=value");
}

TEST_CASE("Inside another launcher's job nothing is started") {
  const BenchRun bench;
  const auto result =
      bench.run({}, {"RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=1"});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err,
             ContainsSubstring("starts its processes itself") && ContainsSubstring("WORLD_SIZE=2"));
}

TEST_CASE("More samples a step than there are is refused as in training") {
  const BenchRun bench;
  const auto result = bench.run({"data.batch_size=1000"});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, ContainsSubstring("expected a global batch of at most the 105 training samples"));
}
