// Errors that reach a person: one kind decides the exit code, one message says what was expected,
// what was found and what to do.
#pragma once

#include <stdexcept>
#include <string>

namespace ampctl {

/// Who has to act on a failure. The kind alone decides the exit code.
enum class ErrorKind {
  internal,     ///< a fault of this program
  usage,        ///< command line or configuration
  environment,  ///< device, library, file system or data
  diverged,     ///< training produced non-finite values beyond the limits set
  peer,         ///< another rank or the process group failed
};

/// Process exit codes, shared by both programs.
enum ExitCode : int {
  kExitDone = 0,
  kExitInternal = 1,
  kExitUsage = 2,
  kExitEnvironment = 3,
  kExitDiverged = 4,
  kExitPeer = 5,
  kExitPreempted = 75,  ///< stopped by a signal after a checkpoint: run the same command again
};

/// The only exception type that is meant for users.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  [[nodiscard]] ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

/// The exit code of a process that ends because of an error of this kind.
[[nodiscard]] ExitCode exit_code(ErrorKind kind) noexcept;

[[nodiscard]] inline Error usage_error(const std::string& message) { return {ErrorKind::usage, message}; }
[[nodiscard]] inline Error environment_error(const std::string& message) {
  return {ErrorKind::environment, message};
}

}  // namespace ampctl
