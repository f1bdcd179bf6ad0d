// SIGTERM, SIGINT and SIGUSR1 as a request to stop: finish the step, save, exit 75. A second SIGINT ends at
// once.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace ampctl::worker {

/// Signals are blocked in every thread and taken by one that waits for them, so that no handler runs in the
/// middle of anything. Make it before any other thread exists. SIGHUP and SIGPIPE are ignored: a vanished
/// terminal or a closed pipe ends nothing.
class StopSignals {
 public:
  /// `startup_limit`: a start-up that is still stuck (in a read, say) so long after the request ends the
  /// process with exit code 75: nothing was trained yet that could be lost.
  explicit StopSignals(std::chrono::seconds startup_limit);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  [[nodiscard]] const std::atomic<bool>& requested() const { return requested_; }
  /// The first signal taken; 0: none.
  [[nodiscard]] int signal_number() const { return signal_.load(); }
  /// From here on the training loop answers requests itself.
  void started() { started_.store(true); }

 private:
  void watch(std::chrono::seconds startup_limit);

  std::atomic<bool> requested_{false};
  std::atomic<int> signal_{0};
  std::atomic<bool> started_{false};
  std::atomic<bool> quit_{false};
  std::thread watcher_;
};

}  // namespace ampctl::worker
