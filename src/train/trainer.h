// The loop over epochs: windows, logging, evaluation, checkpoints and orderly stops.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "amp/scale_recorder.h"
#include "config/run_plan.h"
#include "data/loader.h"
#include "dist/agreement.h"
#include "dist/monitor.h"
#include "dist/world.h"
#include "events/event_sink.h"
#include "train/checkpoint_io.h"
#include "train/evaluator.h"
#include "train/progress.h"
#include "train/pulse.h"
#include "train/step_log.h"
#include "train/step_runner.h"
#include "train/sync_guard.h"

namespace ampctl::train {

/// What the trainer works with; everything outlives it.
struct TrainerParts {
  const config::RunPlan& plan;
  LiveState live;
  StepRunner& runner;  ///< of live.step
  amp::ScaleRecorder& recorder;
  StepOptions step_options;
  data::Loader& train_loader;
  data::Loader* eval_loader = nullptr;  ///< null: no evaluation
  std::vector<std::string> parameter_names;
  std::vector<std::string> class_names;
  std::filesystem::path checkpoints;
  events::EventBus& bus;
  const std::atomic<bool>& stop;     ///< this process was asked to stop
  const dist::World& world;          ///< the ranks that train together; of one: alone
  dist::Monitor* monitor = nullptr;  ///< told of every step; null: nobody watches
  Pulse* pulse = nullptr;            ///< likewise
};

enum class Outcome { done, preempted };

class Trainer {
 public:
  Trainer(TrainerParts parts, const Progress& progress);

  /// Trains to the plan's end, or until `stop` is set: then finishes the step, saves and returns preempted.
  /// With several ranks the request of any one is agreed by all, who stop behind the same step.
  /// Throws diverged errors after saving the last good state. Collective; rank 0 writes the checkpoints.
  Outcome run();

  [[nodiscard]] const Progress& progress() const { return progress_; }
  /// Training samples and seconds of this process, without evaluation and checkpoints.
  [[nodiscard]] double samples_per_sec() const;
  [[nodiscard]] std::optional<double> final_top1() const { return final_top1_; }

 private:
  struct PendingLog {
    amp::PendingRows rows;
    LoopFigures figures;
  };

  std::optional<std::vector<data::Batch>> next_window();
  void account(const std::vector<data::Batch>& window);
  bool after_window();
  bool stop_agreed();
  void report_start();
  void tell_monitor(dist::Phase phase) const;
  void begin_log();
  void lap();
  void publish_ready(bool wait);
  void publish(bool wait);
  void settle();
  [[noreturn]] void end_diverged();
  [[nodiscard]] bool evaluation_due() const;
  bool evaluate_and_save();
  std::optional<bool> evaluate_now();
  void save(bool best = false);
  void meet_ranks();
  Outcome stop();
  void tell(const StepRunner::Notice& notice);
  void warn(std::string text);
  [[nodiscard]] bool has_ranks() const { return parts_.world.size() > 1; }
  [[nodiscard]] int64_t window_samples() const;
  [[nodiscard]] int64_t quiet_from() const;
  [[nodiscard]] bool finished() const { return progress_.windows >= parts_.plan.total_windows; }
  [[nodiscard]] int64_t epoch() const { return progress_.samples_consumed / parts_.plan.samples_per_epoch; }
  [[nodiscard]] bool due(int64_t every) const { return every > 0 && progress_.windows % every == 0; }

  TrainerParts parts_;
  Progress progress_;
  StepLog log_;
  SyncGuard sync_guard_;
  dist::Agreement agreement_;
  std::deque<PendingLog> pending_;
  LoopFigures current_;
  int64_t corrupt_here_ = 0;  ///< damaged samples of this rank that progress_ does not count yet
  std::chrono::steady_clock::time_point clock_;
  int64_t run_steps_ = 0;  ///< windows done by this process
  int64_t saved_at_ = -1;  ///< windows done at the last save
  std::optional<double> final_top1_;
  int64_t total_samples_ = 0;
  double total_seconds_ = 0.0;
};

}  // namespace ampctl::train
