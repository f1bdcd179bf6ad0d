// A request to stop must not wait for ranks that never answer.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "train/pulse.h"

namespace ampctl::worker {

/// Watches, on a thread of its own, that a request to stop is acted upon: within `limit`, or twice the
/// longest time that a step has taken so far, whichever is longer.
class StopDeadline {
 public:
  /// `on_late` is called once, on the watching thread. All references outlive this.
  StopDeadline(const std::atomic<bool>& requested, const train::Pulse& pulse, std::chrono::seconds limit,
               std::function<void()> on_late);
  ~StopDeadline();
  StopDeadline(const StopDeadline&) = delete;
  StopDeadline& operator=(const StopDeadline&) = delete;

 private:
  void watch(const std::atomic<bool>& requested, const train::Pulse& pulse, std::chrono::seconds limit,
             const std::function<void()>& on_late);

  std::atomic<bool> quit_{false};
  std::thread thread_;
};

}  // namespace ampctl::worker
