// One optimizer step over a window of micro-batches. The body reads nothing back from the device: learning
// rate, scale, found_inf, counters and metrics are device tensors, so that it can run eagerly or be captured.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include "amp/grad_scaler.h"
#include "amp/scale_recorder.h"
#include "data/batch.h"
#include "dist/distributed_data_parallel.h"
#include "dist/world.h"
#include "kernels/step_control.h"
#include "nn/gradient_slots.h"
#include "nn/layer.h"
#include "optim/optimizer.h"
#include "task/classification.h"
#include "train/buffer_arena.h"

namespace ampctl::train {

class DataParallel;

struct StepOptions {
  bool autocast = false;
  c10::ScalarType autocast_dtype = c10::kHalf;
  bool autocast_cache = true;
  std::optional<double> clip_grad_norm;  ///< max_norm of unscaled gradients
  std::optional<double> clip_grad_value;
  task::ClassificationOptions task;
  std::vector<int64_t> image_shape;           ///< (C, H, W): of the batch that stands in for an empty share
  c10::ScalarType image_dtype = c10::kFloat;  ///< of that batch
  int64_t synced_micro_batch = 0;  ///< with synchronised batch norm: planned size of a micro-batch, since all
                                   ///< ranks must run equally many; else 0
  bool samples_vary = false;       ///< batches may hold fewer samples than planned (on_corrupt: skip)
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
            amp::ScaleRecorder& recorder, BufferArena& buffers, at::Tensor lr_table, StepOptions options);

  /// From now on a step is one of all ranks: gradients are averaged by `ddp` behind the window's last
  /// backward pass, and found_inf, loss and sample count are summed over `world` on the device, so that every
  /// rank skips, scales and schedules alike. With gradient_as_bucket_view the window's first gradients of
  /// layers with slots are written to where the Reducer keeps them instead of being copied there. Both
  /// outlive this.
  void join(const dist::World& world, dist::DistributedDataParallel& ddp);

  /// From now on every micro-batch is split over `replicas`, which outlive this. Not together with join().
  void spread(DataParallel& replicas);

  /// `window`: this rank's micro-batches; `window_samples`: samples that all ranks together planned for this
  /// step, not looked at alone. The loss is the sum over the window's valid samples divided by their number,
  /// over all micro-batches and ranks, also when the last ones are shorter; a rank without any takes part
  /// with weight 0. A non-finite gradient anywhere leaves parameters, optimizer state, buffers and schedule
  /// as they were, in every precision.
  void run(const std::vector<data::Batch>& window, int64_t window_samples = 0);

  /// For who captures run() as a CUDA graph: before the capture, and behind each replay.
  void before_capture() const;
  void replayed() const;

  [[nodiscard]] const StepCounters& counters() const { return counters_; }
  void set_counters(int64_t steps_done, int64_t windows);

 private:
  /// What the optimizer and the records need to know of a window.
  struct Window {
    at::Tensor loss_sum;  // over this rank's samples
    int64_t valid = 0;    // this rank's samples
    int64_t planned = 0;  // of all ranks; alone: the valid ones
  };

  [[nodiscard]] bool has_ranks() const { return ddp_ != nullptr; }
  at::Tensor accumulate_gradients(const std::vector<data::Batch>& window, double weight);
  at::Tensor backward(const data::Batch& batch, double weight, bool last);
  [[nodiscard]] at::Tensor forward(nn::Layer& model, const data::Batch& batch) const;
  [[nodiscard]] data::Batch idle_batch(int64_t size) const;
  void even_out(std::vector<data::Batch>& batches, int64_t window_samples) const;
  void find_places();
  void agree(kernels::StepFindings& findings, const Window& window) const;
  [[nodiscard]] kernels::StepRules rules() const;
  void clip_values(const at::Tensor& grad_scale) const;
  void update(const Window& window);

  nn::Layer& model_;
  optim::Optimizer& optimizer_;
  amp::GradScaler& scaler_;
  amp::ScaleRecorder& recorder_;
  BufferArena& buffers_;
  std::unique_ptr<nn::GradientSlots> slots_;  // null: gradients come where they come
  at::Tensor lr_table_;
  StepOptions options_;
  StepCounters counters_;
  const dist::World* world_ = nullptr;
  dist::DistributedDataParallel* ddp_ = nullptr;  // null: alone
  DataParallel* replicas_ = nullptr;              // null: this model alone
};

}  // namespace ampctl::train
