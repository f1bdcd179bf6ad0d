// Starting a program as a child of this one, and learning how children ended.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "launch/cpu_affinity.h"
#include "launch/environment.h"

namespace ampctl::launch {

struct ChildCommand {
  std::filesystem::path program;
  std::vector<std::string> arguments;  ///< without the program's name
  Variables environment;               ///< all of it
  int out = -1;                        ///< descriptor for standard output; -1: this process's own
  int err = -1;
  std::vector<int> inherited;  ///< further descriptors that stay open, under their numbers
  CpuList cpus;                ///< empty: as this process
};

/// Starts it in a process group of its own, with SIGTERM, SIGINT and SIGUSR1 blocked until it asks for them,
/// so that a request to stop that comes early is kept. Returns its process id, which is its group's as well.
/// Throws an environment error when it cannot be started.
[[nodiscard]] pid_t start_child(const ChildCommand& command);

/// How a process ended: by a signal, or else with an exit code.
struct ChildEnd {
  pid_t pid = -1;
  int exit_code = 0;
  int signal = 0;
};

/// A child that has ended, after ending whatever else its process group still ran; nothing when none has.
[[nodiscard]] std::optional<ChildEnd> next_end();

/// Signals a child's process group.
void signal_child(pid_t pid, int number);

/// True for a process that SIGSTOP or a debugger has stopped.
[[nodiscard]] bool is_stopped(pid_t pid);

}  // namespace ampctl::launch
