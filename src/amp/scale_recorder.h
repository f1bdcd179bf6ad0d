// Remembers what every step decided on the device (scale, skip, gradient norm, …) without the host waiting
// for it: steps write rows into a ring buffer on the device, logging steps fetch what is new.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

namespace ampctl::amp {

/// What one step hands over; 0-dim tensors of any number type on the recorder's device.
struct RecordedStep {
  at::Tensor step;            ///< steps attempted before this one
  at::Tensor scale;           ///< before the update; undefined: 1
  at::Tensor growth_tracker;  ///< before the update; undefined: 0
  at::Tensor found_inf;       ///< 0 or 1; undefined: 0
  at::Tensor grad_norm;       ///< unscaled, before clipping; undefined: NaN
  at::Tensor loss_sum;        ///< undefined: NaN
  at::Tensor lr;              ///< undefined: NaN
  int64_t samples = 0;        ///< samples in the step's window
  at::Tensor nonfinite;       ///< (num_parameters) uint8, kernels::GradStats; undefined: all 0
};

/// A row on the host.
struct StepRow {
  int64_t step = 0;
  double scale = 1.0;
  int64_t growth_tracker = 0;
  bool found_inf = false;
  double grad_norm = 0.0;
  double loss_sum = 0.0;
  int64_t samples = 0;
  double lr = 0.0;
  std::vector<int64_t> nonfinite;  ///< indices of parameters whose gradients were not finite, rising
};

/// Rows on their way to the host.
class PendingRows {
 public:
  /// True once rows() returns without waiting. Never waits.
  [[nodiscard]] bool ready() const;
  /// Rows in the order of their steps. Waits for the copy when it is not ready.
  [[nodiscard]] std::vector<StepRow> rows() const;
  /// Rows that were overwritten before they could be fetched. Waits as rows() does.
  [[nodiscard]] int64_t lost() const;

 private:
  friend class ScaleRecorder;
  PendingRows() = default;
  void wait() const;

  at::Tensor rows_;
  at::Tensor flags_;
  at::Tensor counts_;
  std::optional<c10::Event> copied_;  // absent on the CPU
};

class ScaleRecorder {
 public:
  /// `capacity` rows: at least the steps between two drains, or the oldest are lost (and counted as such).
  ScaleRecorder(int64_t capacity, int64_t num_parameters, c10::Device device);

  /// Enqueues one row. Device work only; the row's place comes from a counter on the device, so that a
  /// replayed CUDA graph writes the next row each time.
  void record(const RecordedStep& step);

  /// Enqueues the copy of all rows written since the last drain, on the current stream, behind the steps
  /// already enqueued. Does not wait.
  [[nodiscard]] PendingRows drain();

  [[nodiscard]] int64_t capacity() const { return rows_.size(0); }

 private:
  at::Tensor rows_;    // (capacity, columns) float64
  at::Tensor flags_;   // (capacity, num_parameters) uint8
  at::Tensor counts_;  // (2) int64: rows written, rows handed to drains, both since construction
  at::Tensor zero_;    // 0-dim float64 each: what undefined values stand for
  at::Tensor one_;
  at::Tensor nan_;
  at::Tensor no_flags_;
};

}  // namespace ampctl::amp
