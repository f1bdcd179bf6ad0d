#include "e2e/bench/runs.h"

#include "support/catch.h"

namespace ampctl::test {

BenchRun::BenchRun() { write_text(config(), small_experiment()); }

ProcessResult BenchRun::run(std::vector<std::string> arguments, const std::vector<std::string>& env) const {
  const std::vector<std::string> common{"bench",   "-c", config(),   "--warmup", "1",
                                        "--steps", "2",  "--blocks", "2"};
  arguments.insert(arguments.begin(), common.begin(), common.end());
  return run_ampctl(arguments, env);
}

Json BenchRun::json(std::vector<std::string> arguments) const {
  arguments.insert(arguments.end(), {"--json", "-"});
  const auto result = run(arguments);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return Json::parse(result.out);
}

}  // namespace ampctl::test
