// From a caught exception to what a process says and ends with.
#pragma once

#include <exception>
#include <string>

namespace ampctl::worker {

struct Failure {
  int exit_code = 1;
  std::string message;
};

/// Our own errors by their kind; out of memory as a fault of the environment; what a process group throws as
/// a peer's failure; anything else as internal.
Failure describe(const std::exception& error);

/// Prints "ampctl: error: …" on standard error.
void say(const Failure& failure);

}  // namespace ampctl::worker
