// A rank's process: where it runs, and what this host knows about it.
#pragma once

#include <cstdint>
#include <string>

namespace ampctl::dist {

struct PeerProcess {
  std::string host;
  int64_t pid = 0;
  std::string pid_namespace;  ///< what a process number means only inside

  /// This process.
  static PeerProcess self();

  /// One line for the store, and back; throws std::invalid_argument for anything else.
  [[nodiscard]] std::string to_line() const;
  static PeerProcess from_line(const std::string& line);

  friend bool operator==(const PeerProcess&, const PeerProcess&) = default;
};

enum class ProcessState { unknown, running, stopped, gone };

/// unknown for a process on another host or in another namespace.
[[nodiscard]] ProcessState state_of(const PeerProcess& process);

/// "rank 3 (node7, process 4711)".
[[nodiscard]] std::string describe(int64_t rank, const PeerProcess& process);

}  // namespace ampctl::dist
