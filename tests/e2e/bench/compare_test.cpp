// Several variants: a row each, beside its baseline; failures are rows as well.
#include <sstream>

#include "e2e/bench/runs.h"
#include "support/catch.h"
#include "support/matchers.h"

using namespace ampctl::test;

namespace {

std::vector<std::string> lines_with(const std::string& text, const std::string& part) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(part) != std::string::npos) found.push_back(line);
  }
  return found;
}

}  // namespace

TEST_CASE("Comparisons are measured in every combination, each in a process of its own") {
  const BenchRun bench;
  const auto result =
      bench.run({"--no-profile", "--compare", "data.batch_size=4,8", "--compare",
                 "amp.dtype=float32,bfloat16", "--json", (bench.folder() / "out.json").string()});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  for (const char* name : {"data.batch_size=4 amp.dtype=float32", "data.batch_size=4 amp.dtype=bfloat16",
                           "data.batch_size=8 amp.dtype=float32", "data.batch_size=8 amp.dtype=bfloat16"})
    CHECK(lines_with(result.out, name).size() == 1);
  CHECK_THAT(result.out, ContainsSubstring("speed") && ContainsSubstring("memory"));
  // The first two rows are their own baselines: the first comparison's first value.
  CHECK_THAT(lines_with(result.out, "batch_size=4").at(1), ContainsSubstring("1.000x"));
  CHECK_THAT(result.err, ContainsSubstring("4 of 4: data.batch_size=8 amp.dtype=bfloat16"));
}

TEST_CASE("A variant that fails is a row, the others are measured, and the exit code is its own") {
  const BenchRun bench;
  // How many samples there are only the worker finds out.
  const auto result = bench.run({"--no-profile", "--compare", "data.batch_size=1000,10"});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 2);
  CHECK_THAT(lines_with(result.out, "data.batch_size=1000 ").at(0), ContainsSubstring("failed"));
  CHECK_THAT(result.out, ContainsSubstring("data.batch_size=1000 failed: ") &&
                             ContainsSubstring("at most the 105 training samples"));
  CHECK_THAT(lines_with(result.out, "data.batch_size=10 ").at(0), !ContainsSubstring("failed"));
}

TEST_CASE("A worker that is killed is a row as well") {
  const BenchRun bench;
  const TempDir folder;
  const auto result = bench.run({"--compare", "seed=1,2"}, {fake_worker(folder, "kill -KILL $$")});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 5);
  CHECK(lines_with(result.out, "its process gave no result").size() == 2);
}
