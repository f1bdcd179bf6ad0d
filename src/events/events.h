// What happens in a run, as values. The trainer emits them in this order; sinks turn them into text and
// files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ampctl::events {

struct RunStarted {
  std::string plan_text;  ///< for people
  std::string device;     ///< e.g. "NVIDIA H200" or "CPU, 2 threads"
  std::string output;
  int64_t total_steps = 0;  ///< windows of the whole run
  int64_t steps_per_epoch = 0;
  int64_t start_step = 0;  ///< > 0 after a resume
  std::optional<std::string> resumed_from;
};

/// A logging step's figures. Means are over the steps since the last one.
struct StepEnd {
  int64_t epoch = 0;  ///< from 0
  int64_t step = 0;   ///< windows done so far, skipped ones included
  double loss = 0.0;  ///< mean over samples of the steps that were not skipped; NaN if all were
  double lr = 0.0;
  double grad_norm = 0.0;  ///< of the last step, unscaled, before clipping
  double scale = 1.0;
  int64_t skipped_steps = 0;  ///< since the run's beginning, kept over resumes
  double samples_per_sec = 0.0;
  double data_wait = 0.0;          ///< share of the time, 0 to 1
  double step_seconds = 0.0;       ///< mean
  double max_allocated_gib = 0.0;  ///< 0 on the CPU
  double max_reserved_gib = 0.0;
  int64_t corrupt_samples = 0;  ///< skipped so far
  bool closes_epoch = false;    ///< the epoch ended with this step and no evaluation follows
};

/// One skipped step. Emitted before the StepEnd that reports it.
struct Overflow {
  int64_t step = 0;  ///< counted from 1, as StepEnd's
  double scale_before = 1.0;
  double scale_after = 1.0;
  std::vector<std::string> parameters;  ///< first few whose gradients were not finite
  int64_t parameter_count = 0;          ///< how many in all
};

struct Evaluated {
  int64_t epoch = 0;
  int64_t step = 0;
  double loss = 0.0;
  double top1 = 0.0;  ///< percent
  double top5 = 0.0;  ///< percent
  int64_t samples = 0;
  double seconds = 0.0;
  bool best = false;
};

/// A point inside a long activity (evaluation, data scan), for the progress line only.
struct Progress {
  std::string activity;
  int64_t done = 0;
  int64_t total = 0;
};

struct CheckpointSaved {
  int64_t step = 0;
  std::string path;
  double seconds = 0.0;
  bool best = false;
};

struct Message {
  enum class Level { info, warning, error } level = Level::info;
  std::string text;
};

struct RunEnded {
  enum class Outcome { done, preempted, failed } outcome = Outcome::done;
  int64_t step = 0;
  double seconds = 0.0;
  double samples_per_sec = 0.0;  ///< whole run, training only
  double max_allocated_gib = 0.0;
  int64_t skipped_steps = 0;
  std::optional<double> best_top1;
  std::optional<double> final_top1;
  std::string message;  ///< reason when not done
};

using Event =
    std::variant<RunStarted, StepEnd, Overflow, Evaluated, Progress, CheckpointSaved, Message, RunEnded>;

}  // namespace ampctl::events
