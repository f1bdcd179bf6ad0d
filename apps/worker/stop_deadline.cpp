#include "stop_deadline.h"

#include <algorithm>
#include <utility>

namespace ampctl::worker {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPoll{200};

}  // namespace

StopDeadline::StopDeadline(const std::atomic<bool>& requested, const train::Pulse& pulse,
                           std::chrono::seconds limit, std::function<void()> on_late)
    : thread_([this, &requested, &pulse, limit, on_late = std::move(on_late)] {
        watch(requested, pulse, limit, on_late);
      }) {}

StopDeadline::~StopDeadline() {
  quit_.store(true);
  thread_.join();
}

void StopDeadline::watch(const std::atomic<bool>& requested, const train::Pulse& pulse,
                         std::chrono::seconds limit, const std::function<void()>& on_late) {
  auto beat = Clock::now();
  auto asked = Clock::time_point::max();
  Clock::duration longest{};
  int64_t steps = pulse.steps.load();
  for (; !quit_.load() && !pulse.stopping.load(); std::this_thread::sleep_for(kPoll)) {
    const auto now = Clock::now();
    if (pulse.steps.load() != steps) {
      steps = pulse.steps.load();
      // What takes long after the request is not known to be a step.
      if (!requested.load()) longest = std::max(longest, now - beat);
      beat = now;
    }
    if (!requested.load()) continue;
    if (asked == Clock::time_point::max()) asked = now;
    if (now - asked < std::max<Clock::duration>(limit, 2 * longest)) continue;
    on_late();
    return;
  }
}

}  // namespace ampctl::worker
