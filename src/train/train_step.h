// One optimizer step over a window of micro-batches. The body reads nothing back from the device: learning
// rate, scale, found_inf, counters and metrics are device tensors, so that it can run eagerly or be captured.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include "amp/grad_scaler.h"
#include "amp/scale_recorder.h"
#include "data/batch.h"
#include "nn/layer.h"
#include "optim/optimizer.h"
#include "task/classification.h"
#include "train/buffer_arena.h"

namespace ampctl::train {

struct StepOptions {
  bool autocast = false;
  c10::ScalarType autocast_dtype = c10::kHalf;
  bool autocast_cache = true;
  std::optional<double> clip_grad_norm;  ///< max_norm of unscaled gradients
  std::optional<double> clip_grad_value;
  task::ClassificationOptions task;
};

/// Counters that live on the device, since a skip is decided there.
struct StepCounters {
  at::Tensor steps_done;  ///< 0-dim int64: updates that happened; drives schedule and bias correction
  at::Tensor windows;     ///< 0-dim int64: steps attempted, skipped ones included
};

class TrainStep {
 public:
  /// `lr_table` (n) float32 on the training device: the rate after k updates stands at index k.
  TrainStep(nn::Layer& model, optim::Optimizer& optimizer, amp::GradScaler& scaler,
            amp::ScaleRecorder& recorder, BufferArena& buffers, at::Tensor lr_table,
            const StepOptions& options);

  /// The loss is the sum over the window's valid samples divided by their number, over all micro-batches,
  /// also when the last ones are shorter. A non-finite gradient leaves parameters, optimizer state, buffers
  /// and schedule as they were, in every precision.
  void run(const std::vector<data::Batch>& window);

  [[nodiscard]] const StepCounters& counters() const { return counters_; }
  void set_counters(int64_t steps_done, int64_t windows);

 private:
  at::Tensor accumulate_gradients(const std::vector<data::Batch>& window, int64_t samples);
  void update(const at::Tensor& loss_sum, int64_t samples);

  nn::Layer& model_;
  optim::Optimizer& optimizer_;
  amp::GradScaler& scaler_;
  amp::ScaleRecorder& recorder_;
  BufferArena& buffers_;
  at::Tensor lr_table_;
  StepOptions options_;
  StepCounters counters_;
};

}  // namespace ampctl::train
