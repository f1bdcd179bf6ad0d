// torchrun's flags on the command line.
#pragma once

#include "launch/launch_options.h"

namespace CLI {
class App;
}

namespace ampctl::cli {

/// Adds them to a command; what is typed lands in `options`, which lives as long as the command.
void add_launch_flags(CLI::App* command, launch::LaunchOptions& options);

}  // namespace ampctl::cli
