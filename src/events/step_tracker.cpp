#include "events/step_tracker.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/format.h"

namespace ampctl::events {
namespace {

constexpr double kSmoothingSteps = 50.0;  // after so many steps an old loss weighs 1/e
constexpr int kLossDigits = 4;
constexpr int kLrDigits = 4;

std::string gib(double value) {
  constexpr int kDigits = 3;
  return format_significant(value, kDigits) + " GiB";
}

}  // namespace

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

StepTracker::StepTracker(MonotonicClock clock) : clock_(std::move(clock)) {}

void StepTracker::start(const RunStarted& run) {
  total_steps_ = run.total_steps;
  steps_per_epoch_ = run.steps_per_epoch;
  last_step_ = run.start_step;
  loss_sum_ = loss_weight_ = 0.0;
  first_time_.reset();
}

std::string StepTracker::epoch_text(int64_t epoch) const {
  std::string text = "epoch " + std::to_string(epoch + 1);
  if (steps_per_epoch_ > 0 && total_steps_ > 0) {
    text += "/" + std::to_string((total_steps_ + steps_per_epoch_ - 1) / steps_per_epoch_);
  }
  return text;
}

double StepTracker::smoothed_loss(const StepEnd& step) {
  // NaN says that every step of the interval was skipped; it must not stay in the mean for good.
  if (!std::isfinite(step.loss)) return step.loss;
  const auto steps = static_cast<double>(std::max<int64_t>(1, step.step - last_step_));
  const double keep = std::exp(-steps / kSmoothingSteps);
  loss_sum_ = keep * loss_sum_ + (1.0 - keep) * step.loss;
  loss_weight_ = keep * loss_weight_ + (1.0 - keep);
  return loss_sum_ / loss_weight_;
}

std::string StepTracker::eta(const StepEnd& step) {
  const double now = clock_();
  double seconds_a_step = step.step_seconds;
  if (!first_time_) {
    first_time_ = now;
    first_step_ = step.step;
  } else if (step.step > first_step_) {
    // Elapsed time holds evaluations and saves too, as the time left will.
    seconds_a_step = (now - *first_time_) / static_cast<double>(step.step - first_step_);
  }
  const int64_t left = total_steps_ - step.step;
  if (left <= 0 || !(seconds_a_step > 0.0)) return {};
  return "eta " + format_duration(seconds_a_step * static_cast<double>(left));
}

StepFields StepTracker::track(const StepEnd& step) {
  StepFields fields;
  fields.epoch = epoch_text(step.epoch);
  fields.steps = "step " + std::to_string(step.step);
  if (total_steps_ > 0) {
    fields.share = std::min(1.0, static_cast<double>(step.step) / static_cast<double>(total_steps_));
    fields.steps += "/" + std::to_string(total_steps_);
    fields.percent = format_share(fields.share);
  }
  fields.loss = "loss " + format_significant(smoothed_loss(step), kLossDigits);
  fields.speed = format_count(step.samples_per_sec) + " samples/s";
  fields.data_wait = "data wait " + format_share(step.data_wait);
  fields.lr = "lr " + format_general(step.lr, kLrDigits);
  fields.scale = "scale " + format_scale(step.scale);
  fields.skipped = "skipped " + std::to_string(step.skipped_steps);
  if (step.max_allocated_gib > 0.0) fields.memory = "memory " + gib(step.max_allocated_gib);
  if (step.corrupt_samples > 0) fields.corrupt = "corrupt " + std::to_string(step.corrupt_samples);
  fields.eta = eta(step);
  last_step_ = step.step;
  return fields;
}

}  // namespace ampctl::events
