#include "train/step_log.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/format.h"
#include "train/memory_stats.h"

namespace ampctl::train {
namespace {

constexpr size_t kNamesShown = 5;

std::string advice(const config::RunPlan& plan) {
  const std::string lower = "lower optimizer.lr or lengthen the warm-up, set train.clip_grad_norm, ";
  const std::string go_on =
      " A run with other settings needs another `output`; it can start from the last good weights "
      "(model.weights: "
      "checkpoints/latest/model.safetensors of this run). See docs/mixed-precision.md.";
  if (plan.scaler_enabled) {
    return "Gradients stay non-finite however small the scale, so the model itself produces inf or NaN: " +
           lower +
           "name the layers that overflow under amp.fp32_modules, or try amp.dtype=bfloat16; "
           "amp.enabled=false tells "
           "whether precision is the cause." +
           go_on;
  }
  return "This precision has no scaler, so the model itself produces inf or NaN: " + lower +
         "and look for bad samples in the data." + go_on;
}

}  // namespace

StepLog::StepLog(const config::RunPlan& plan, c10::Device device, std::vector<std::string> parameter_names,
                 events::EventBus& bus)
    : plan_(plan), device_(device), parameter_names_(std::move(parameter_names)), bus_(bus) {}

void StepLog::absorb(const std::vector<amp::StepRow>& rows, Progress& progress) {
  for (const auto& row : rows) {
    if (row.found_inf) {
      absorb_skip(row, progress);
    } else {
      progress.consecutive_skips = 0;
      loss_sum_ += row.loss_sum;
      loss_samples_ += row.samples;
    }
  }
  if (!rows.empty()) last_ = rows.back();
}

void StepLog::report(const LoopFigures& figures, const Progress& progress) {
  events::StepEnd end;
  end.epoch = figures.epoch;
  end.step = figures.step;
  end.closes_epoch = figures.closes_epoch;
  end.loss = loss_samples_ > 0 ? loss_sum_ / static_cast<double>(loss_samples_)
                               : std::numeric_limits<double>::quiet_NaN();
  loss_sum_ = 0.0;
  loss_samples_ = 0;
  if (last_) {
    end.lr = last_->lr;
    end.grad_norm = last_->grad_norm;
    end.scale = last_->scale;
  }
  end.skipped_steps = progress.skipped_steps;
  end.corrupt_samples = progress.corrupt_samples;
  if (figures.seconds > 0 && figures.steps > 0) {
    end.samples_per_sec = static_cast<double>(figures.samples) / figures.seconds;
    end.data_wait = figures.wait_seconds / figures.seconds;
    end.step_seconds = figures.seconds / static_cast<double>(figures.steps);
  }
  const MemoryStats memory = memory_stats(device_);
  end.max_allocated_gib = memory.max_allocated_gib;
  end.max_reserved_gib = memory.max_reserved_gib;
  bus_.emit(end);
}

void StepLog::absorb_skip(const amp::StepRow& row, Progress& progress) {
  ++progress.skipped_steps;
  ++progress.consecutive_skips;
  events::Overflow overflow;
  overflow.step = row.step + 1;
  overflow.scale_before = row.scale;
  overflow.scale_after =
      plan_.scaler_enabled ? row.scale * plan_.config.amp.scaler.backoff_factor : row.scale;
  overflow.parameter_count = static_cast<int64_t>(row.nonfinite.size());
  // Parameters are numbered from the input on; backward starts at the output, so the last ones overflowed
  // first.
  const size_t shown = std::min(kNamesShown, row.nonfinite.size());
  for (size_t i = 1; i <= shown; ++i) {
    const int64_t index = row.nonfinite[row.nonfinite.size() - i];
    overflow.parameters.push_back(parameter_names_.at(static_cast<size_t>(index)));
  }
  bus_.emit(overflow);
  if (!divergence_) check_divergence(row, progress);
}

void StepLog::check_divergence(const amp::StepRow& row, const Progress& progress) {
  const auto& limits = plan_.config.amp.scaler;
  const std::string step = std::to_string(row.step + 1);
  const double scale_after = row.scale * limits.backoff_factor;
  if (plan_.scaler_enabled && limits.min_scale > 0 && scale_after < limits.min_scale) {
    divergence_ = "training diverged: at step " + step + " the loss scale fell to " +
                  format_scale(scale_after) + " (amp.scaler.min_scale is " + format_scale(limits.min_scale) +
                  "). " + advice(plan_);
    return;
  }
  if (limits.max_consecutive_skips <= 0) return;
  const std::string limit = std::to_string(limits.max_consecutive_skips);
  const std::string in_a_row = std::to_string(progress.consecutive_skips) + " steps in a row";
  if (progress.consecutive_skips >= limits.max_consecutive_skips) {
    divergence_ = "training diverged: " + in_a_row + " up to step " + step +
                  " had non-finite gradients and were skipped (amp.scaler.max_consecutive_skips is " + limit +
                  "). " + advice(plan_);
  } else if (!warned_ && progress.consecutive_skips * 2 >= limits.max_consecutive_skips) {
    warned_ = true;
    bus_.emit(events::Message{events::Message::Level::warning,
                              in_a_row + " were skipped; at " + limit + " the run ends as diverged"});
  }
}

}  // namespace ampctl::train
