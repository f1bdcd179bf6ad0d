// ampctl, the front end: reads the command line and the configuration, prints plans, schemas and reports, and
// starts the worker, which trains.
#include <exception>
#include <iostream>

#include <unistd.h>

#include "base/error.h"
#include "command_line.h"
#include "output.h"
#include "style.h"

namespace {

void report(const std::string& message) {
  const ampctl::cli::Style style(STDERR_FILENO);
  std::cerr << style.red("ampctl: error: ") << message << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    ampctl::cli::ensure_standard_streams();
    ampctl::cli::CommandLine command_line;
    return command_line.run({argv + 1, argv + argc});
  } catch (const ampctl::Error& error) {
    report(error.what());
    return ampctl::exit_code(error.kind());
  } catch (const std::exception& error) {
    report(std::string("internal error: ") + error.what());
    return ampctl::kExitInternal;
  }
}
