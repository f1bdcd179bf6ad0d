// Notices that the launcher is gone: workers must not outlive it.
#pragma once

#include <functional>
#include <thread>

#include "base/file.h"

namespace ampctl::worker {

/// Waits, in a thread of its own, for the end of a pipe that the launcher holds open as long as it lives; a
/// stopped launcher still holds it.
class LauncherWatch {
 public:
  /// `descriptor`: the pipe's read end, taken over. `on_gone` is called once, on the watching thread.
  LauncherWatch(int descriptor, std::function<void()> on_gone);
  ~LauncherWatch();
  LauncherWatch(const LauncherWatch&) = delete;
  LauncherWatch& operator=(const LauncherWatch&) = delete;

 private:
  FileDescriptor pipe_;
  FileDescriptor quit_;  // an eventfd
  std::thread thread_;
};

}  // namespace ampctl::worker
