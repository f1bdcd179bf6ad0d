#include "bench/blocks.h"

#include <chrono>
#include <utility>

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace ampctl::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Runs steps and adds up how long their batches were waited for.
class Runner {
 public:
  explicit Runner(const Subject& subject) : subject_(subject) {}

  /// False when there was no window left.
  bool step() {
    const auto start = Clock::now();
    const Window window = subject_.next_window();
    waited_ += seconds_since(start);
    if (window.empty()) return false;
    subject_.run(window);
    return true;
  }

  bool steps(int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      if (!step()) return false;
    }
    return true;
  }

  double take_waited() { return std::exchange(waited_, 0.0); }

 private:
  const Subject& subject_;
  double waited_ = 0.0;
};

void forget_memory_peak(c10::Device device) {
  if (!device.is_cpu()) at::getDeviceAllocator(device.type())->resetPeakStats(device.index());
}

}  // namespace

void synchronize(c10::Device device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

BlockTimes time_blocks(const Subject& subject, const BlockPlan& plan,
                       const std::function<void()>& on_first_step) {
  BlockTimes times;
  times.completed = false;
  Runner runner(subject);
  if (!runner.step()) return times;
  synchronize(subject.device);
  on_first_step();
  forget_memory_peak(subject.device);
  if (!runner.steps(plan.warmup_steps - 1)) return times;
  subject.after_block();
  for (int64_t block = 0; block < plan.blocks; ++block) {
    synchronize(subject.device);
    runner.take_waited();
    const auto start = Clock::now();
    if (!runner.steps(plan.steps)) return times;
    synchronize(subject.device);
    const auto steps = static_cast<double>(plan.steps);
    times.step_seconds.push_back(seconds_since(start) / steps);
    times.data_wait_seconds.push_back(runner.take_waited() / steps);
    subject.after_block();
  }
  times.completed = true;
  return times;
}

}  // namespace ampctl::bench
