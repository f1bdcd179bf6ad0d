// What `ampctl bench` takes beside the configuration.
#pragma once

#include "commands.h"

namespace ampctl::cli {

/// Adds the flags to a command; what is typed lands in `options`, which lives as long as the command.
void add_bench_flags(CLI::App* command, BenchOptions& options);

}  // namespace ampctl::cli
