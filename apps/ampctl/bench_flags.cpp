#include "bench_flags.h"

#include <string>

#include <CLI/CLI.hpp>

namespace ampctl::cli {

void add_bench_flags(CLI::App* command, BenchOptions& options) {
  command
      ->add_option("--compare", options.compare,
                   "Measures with each of these values; repeatable: every combination")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  const auto count = [&](const char* name, int64_t& value, const char* description, int64_t least) {
    command->add_option(name, value, description)
        ->type_name("N")
        ->capture_default_str()
        ->check([least](const std::string& text) {
          int64_t number = 0;
          const bool fits = CLI::detail::lexical_cast(text, number) && number >= least;
          return fits ? ""
                      : "expected a whole number of at least " + std::to_string(least) + ", found " + text;
        });
  };
  count("--warmup", options.warmup, "Steps before the first block", 1);
  count("--steps", options.steps, "Steps of a block", 1);
  count("--blocks", options.blocks, "Blocks, of which the median counts", 1);
  count("--kernels", options.kernels, "Rows of the table of kernels", 0);
  command->add_flag("--synthetic", options.synthetic,
                    "Made-up data of the same size, kept on the device: the step alone");
  command->add_flag("--resident", options.resident, "One window of the data, kept on the device");
  command->add_flag_callback(
      "--no-profile", [&options] { options.profile = false; },
      "Only what is timed: no phases, kernels, limits");
  command
      ->add_option("--json", options.json,
                   "Writes everything as JSON; '-': to standard output, without tables")
      ->type_name("FILE");
}

}  // namespace ampctl::cli
