// Where a run stands: the host-side numbers that a checkpoint carries beside the tensors.
#pragma once

#include <cstdint>
#include <optional>

namespace ampctl::train {

/// The evaluation with the best metric so far.
struct Best {
  double value = 0.0;  ///< of eval.best_metric
  double top1 = 0.0;   ///< percent, of the same evaluation
  int64_t step = 0;    ///< windows done then
};

struct Progress {
  int64_t windows = 0;           ///< optimizer steps attempted, skipped ones included
  int64_t steps_done = 0;        ///< updates that happened; known at checkpoints (the device counts)
  int64_t samples_consumed = 0;  ///< of the run's order: epoch = this / samples_per_epoch
  int64_t skipped_steps = 0;
  int64_t consecutive_skips = 0;  ///< skips up to now without an update between them
  int64_t last_evaluated = -1;    ///< windows done at the last complete evaluation; -1: none
  int64_t corrupt_samples = 0;
  std::optional<Best> best;
};

}  // namespace ampctl::train
