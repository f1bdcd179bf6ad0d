// Where the time of a step goes: by phase, and by kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <c10/core/Device.h>

namespace ampctl::bench {

/// A kernel or copy on a GPU, an operator (without those inside it) on the CPU.
struct KernelTime {
  std::string name;
  double launches = 0.0;  ///< a step
  double seconds = 0.0;   ///< a step
};

/// Seconds a step; see train/step_phase.h. On a GPU the kernels' time by the phase that launched them, where
/// communication is that of NCCL's kernels, which run beside the backward pass; on the CPU the host's time.
struct PhaseTimes {
  double forward = 0.0;
  double backward = 0.0;
  double communication = 0.0;
  double optimizer = 0.0;
  double other = 0.0;
};

struct Profile {
  std::vector<KernelTime> kernels;  ///< longest first
  PhaseTimes phases;
  /// Of a GPU, a step; zeros on the CPU. `busy`: at least one kernel runs; `idle`: none does;
  /// `exposed_communication`: only NCCL's do.
  double busy_seconds = 0.0;
  double idle_seconds = 0.0;
  double exposed_communication_seconds = 0.0;
};

/// Runs `work`, which makes `steps` steps, under PyTorch's profiler. What it runs is slowed down by that: for
/// shares, not for throughput.
[[nodiscard]] Profile profile_steps(c10::Device device, int64_t steps, const std::function<void()>& work);

}  // namespace ampctl::bench
