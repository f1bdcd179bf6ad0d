// Turns the recorder's rows into events and figures, and notices when a run's precision has collapsed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "amp/scale_recorder.h"
#include "config/run_plan.h"
#include "events/event_sink.h"
#include "train/progress.h"

namespace ampctl::train {

/// What the loop itself measured between two logging steps.
struct LoopFigures {
  int64_t epoch = 0;
  int64_t step = 0;   ///< windows done
  int64_t steps = 0;  ///< windows since the last logging step
  int64_t samples = 0;
  double seconds = 0.0;       ///< spent training: evaluation and checkpoints left out
  double wait_seconds = 0.0;  ///< of these, waiting for data
  bool closes_epoch = false;  ///< the epoch ended and no evaluation follows
};

class StepLog {
 public:
  StepLog(const config::RunPlan& plan, c10::Device device, std::vector<std::string> parameter_names,
          events::EventBus& bus);

  /// Takes rows in: emits Overflow for each skipped one and keeps `progress`'s skip counts.
  void absorb(const std::vector<amp::StepRow>& rows, Progress& progress);

  /// Emits StepEnd over everything absorbed since the last report.
  void report(const LoopFigures& figures, const Progress& progress);

  /// Set once the scale fell below amp.scaler.min_scale, or amp.scaler.max_consecutive_skips steps in a row
  /// were skipped: what happened and the advice that fits.
  [[nodiscard]] const std::optional<std::string>& divergence() const { return divergence_; }

 private:
  void absorb_skip(const amp::StepRow& row, Progress& progress);
  void check_divergence(const amp::StepRow& row, const Progress& progress);

  const config::RunPlan& plan_;
  c10::Device device_;
  std::vector<std::string> parameter_names_;
  events::EventBus& bus_;
  double loss_sum_ = 0.0;
  int64_t loss_samples_ = 0;
  std::optional<amp::StepRow> last_;
  bool warned_ = false;
  std::optional<std::string> divergence_;
};

}  // namespace ampctl::train
