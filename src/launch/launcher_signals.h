// The signals that a launcher waits for, as a descriptor that can be waited for together with others.
#pragma once

#include <csignal>
#include <vector>

#include "base/file.h"

namespace ampctl::launch {

/// While it lives SIGTERM, SIGINT, SIGUSR1 and SIGCHLD arrive here, and SIGHUP and SIGPIPE are ignored: a
/// vanished terminal ends nothing. Afterwards all is as before.
class LauncherSignals {
 public:
  LauncherSignals();
  ~LauncherSignals();
  LauncherSignals(const LauncherSignals&) = delete;
  LauncherSignals& operator=(const LauncherSignals&) = delete;

  /// Readable when a signal has come.
  [[nodiscard]] int fd() const { return fd_.get(); }
  /// Those that have come since the last call; never waits.
  [[nodiscard]] std::vector<int> take() const;

 private:
  sigset_t before_{};
  struct sigaction hangup_ {};
  struct sigaction broken_pipe_ {};
  FileDescriptor fd_;
};

}  // namespace ampctl::launch
