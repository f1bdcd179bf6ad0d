// Times training steps: warm-up, then blocks of steps, each between two moments at which the device is idle.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <c10/core/Device.h>

#include "data/batch.h"

namespace ampctl::bench {

using Window = std::vector<data::Batch>;

/// What is measured.
struct Subject {
  std::function<Window()> next_window;  ///< an empty one ends the measurement
  /// One optimizer step as training runs it.
  std::function<void(const Window&)> run;
  /// The same without a CUDA graph: where the device's work is to be told apart by phase.
  std::function<void(const Window&)> run_eagerly;
  /// After each block, outside of what is timed.
  std::function<void()> after_block;
  c10::Device device = c10::kCPU;
};

struct BlockPlan {
  int64_t warmup_steps = 15;  ///< at least 1
  int64_t steps = 10;         ///< of a block
  int64_t blocks = 5;
  [[nodiscard]] int64_t total_steps() const { return warmup_steps + steps * blocks; }
};

struct BlockTimes {
  std::vector<double> step_seconds;       ///< a step, one value a block
  std::vector<double> data_wait_seconds;  ///< of these, waiting for the batches
  bool completed = true;                  ///< false: ended by an empty window
};

/// `on_first_step` is called when the first step, a warm-up one, is done on the device. The device's memory
/// peaks count from there, since libraries try out algorithms in that step which later ones do not use.
[[nodiscard]] BlockTimes time_blocks(const Subject& subject, const BlockPlan& plan,
                                     const std::function<void()>& on_first_step);

/// Waits until the device has nothing left to do; at once on the CPU.
void synchronize(c10::Device device);

}  // namespace ampctl::bench
