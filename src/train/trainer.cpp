#include "train/trainer.h"

#include <algorithm>
#include <utility>

#include <c10/core/impl/VirtualGuardImpl.h>

#include "base/error.h"
#include "base/format.h"
#include "base/process_age.h"
#include "checkpoint/checkpoint.h"
#include "data/shard.h"
#include "dist/collectives.h"
#include "dist/consistency.h"

namespace ampctl::train {
namespace {

using Clock = std::chrono::steady_clock;

bool better(const std::string& metric, double value, double than) {
  return metric == "eval/loss" ? value < than : value > than;
}

double metric_value(const std::string& metric, const EvalResult& result) {
  if (metric == "eval/loss") return result.loss;
  return metric == "eval/top5" ? result.top5 : result.top1;
}

}  // namespace

Trainer::Trainer(TrainerParts parts, const Progress& progress)
    : parts_(std::move(parts)),
      progress_(progress),
      log_(parts_.plan, parts_.live.device, parts_.parameter_names, parts_.bus),
      sync_guard_(parts_.plan.config.log.cuda_sync_debug, parts_.live.device.is_cuda()),
      agreement_(parts_.world),
      clock_(Clock::now()) {
  // Figures of the last evaluation are not needed again once a finished run is resumed.
  if (progress_.windows > 0) saved_at_ = progress_.windows;
}

Outcome Trainer::run() {
  clock_ = Clock::now();
  if (!evaluate_and_save()) return stop();
  while (!finished()) {
    parts_.train_loader.begin_epoch(epoch(), progress_.samples_consumed % parts_.plan.samples_per_epoch);
    const int64_t this_epoch = epoch();
    while (!finished() && epoch() == this_epoch) {
      if (run_steps_ >= quiet_from()) sync_guard_.arm();
      tell_monitor(dist::Phase::data);
      auto window = next_window();
      if (!window) return stop();
      tell_monitor(dist::Phase::step);
      parts_.runner.run(*window, window_samples());
      if (const auto notice = parts_.runner.take_notice()) tell(*notice);
      account(*window);
      if (run_steps_ == 1) report_start();
      if (!after_window() || stop_agreed()) return stop();
    }
  }
  sync_guard_.disarm();
  agreement_.settle();
  return Outcome::done;
}

// Once a run the host waits for the device, in a step that waits for it anyway: libraries are loaded and try
// out their algorithms.
void Trainer::report_start() {
  const auto device = parts_.live.device;
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
  const auto age = process_age();
  if (!age || !parts_.world.is_main()) return;
  parts_.bus.emit(events::Message{events::Message::Level::info,
                                  "first step done " + format_duration(*age) + " after the start"});
}

// The Reducer puts its buckets in order behind the first step, for which it must read the device.
int64_t Trainer::quiet_from() const { return has_ranks() ? 2 : 0; }

int64_t Trainer::window_samples() const {
  const int64_t per_epoch = parts_.plan.samples_per_epoch;
  return std::min(parts_.plan.global_batch, per_epoch - progress_.samples_consumed % per_epoch);
}

void Trainer::tell_monitor(dist::Phase phase) const {
  if (parts_.monitor != nullptr) parts_.monitor->at(phase, progress_.windows);
  if (parts_.pulse != nullptr) parts_.pulse->steps.fetch_add(1);
}

// Ranks see a divergence when their rows happen to arrive; the verdict makes them end behind the same step.
bool Trainer::stop_agreed() {
  const bool wish = parts_.stop.load() || log_.divergence().has_value();
  return agreement_.exchange(wish ? dist::Wish::stop : dist::Wish::go_on) == dist::Wish::stop;
}

std::optional<std::vector<data::Batch>> Trainer::next_window() {
  const int64_t position = progress_.samples_consumed % parts_.plan.samples_per_epoch;
  const data::Span share =
      data::share_of({position, window_samples()}, parts_.world.rank(), parts_.world.size());
  std::vector<data::Batch> window;
  for (int64_t taken = 0; taken < share.count;) {
    auto batch = parts_.train_loader.next();
    if (!batch) {
      if (parts_.train_loader.stopped()) return std::nullopt;
      throw Error(ErrorKind::internal, "the loader ended " + std::to_string(share.count - taken) +
                                           " samples before the end of the window at position " +
                                           std::to_string(position));
    }
    taken += batch->consumed;
    window.push_back(*std::move(batch));
  }
  return window;
}

void Trainer::account(const std::vector<data::Batch>& window) {
  current_.epoch = epoch();
  const int64_t planned = window_samples();
  int64_t corrupt = 0;
  for (const auto& batch : window) {
    corrupt += batch.corrupt;
    current_.wait_seconds += batch.wait_seconds;
  }
  (has_ranks() ? corrupt_here_ : progress_.corrupt_samples) += corrupt;
  current_.samples += planned - corrupt;
  progress_.samples_consumed += planned;
  ++progress_.windows;
  ++run_steps_;
  ++current_.steps;
  current_.step = progress_.windows;
  for (auto& warning : parts_.train_loader.take_warnings()) warn(std::move(warning));
}

bool Trainer::after_window() {
  const bool epoch_ended = progress_.samples_consumed % parts_.plan.samples_per_epoch == 0;
  if (due(parts_.plan.config.log.every_steps) || epoch_ended || finished()) {
    sync_guard_.disarm();
    current_.closes_epoch = epoch_ended && !evaluation_due();
    begin_log();
  }
  publish_ready(false);
  return evaluate_and_save();
}

void Trainer::begin_log() {
  lap();
  total_samples_ += current_.samples;
  total_seconds_ += current_.seconds;
  pending_.push_back({parts_.recorder.drain(), current_});
  current_ = {};
}

void Trainer::lap() {
  const auto now = Clock::now();
  current_.seconds += std::chrono::duration<double>(now - clock_).count();
  clock_ = now;
}

void Trainer::publish_ready(bool wait) {
  publish(wait);
  // Rows that were waited for are the same on every rank; those that happened to be there are not.
  if (log_.divergence() && (wait || !has_ranks())) end_diverged();
}

void Trainer::publish(bool wait) {
  while (!pending_.empty() && (wait || pending_.front().rows.ready())) {
    const PendingLog pending = std::move(pending_.front());
    pending_.pop_front();
    if (pending.rows.lost() > 0) throw Error(ErrorKind::internal, "the step recorder lost rows");
    log_.absorb(pending.rows.rows(), progress_);
    log_.report(pending.figures, progress_);
  }
}

void Trainer::settle() {
  sync_guard_.disarm();
  if (current_.steps > 0) begin_log();
  publish_ready(true);
}

void Trainer::end_diverged() {
  sync_guard_.disarm();
  // Steps enqueued since the divergence was noticed belong to the state that is saved: they count as well.
  if (current_.steps > 0) begin_log();
  publish(true);
  // Skipped steps changed nothing, so what stands now is the last good state. A run that is continued from
  // it, with other settings, starts counting skips anew.
  progress_.consecutive_skips = 0;
  const std::string reason = *log_.divergence();
  save();
  throw Error(ErrorKind::diverged, reason);
}

bool Trainer::evaluation_due() const {
  return parts_.eval_loader != nullptr && progress_.windows > 0 &&
         progress_.last_evaluated != progress_.windows && (due(parts_.plan.eval_every_windows) || finished());
}

bool Trainer::evaluate_and_save() {
  const auto& plan = parts_.plan;
  const bool evaluation = evaluation_due();
  const bool checkpoint = progress_.windows > 0 && saved_at_ != progress_.windows &&
                          (due(plan.checkpoint_every_windows) || finished());
  if (!evaluation && !checkpoint) return true;
  settle();
  bool best = false;
  bool completed = true;
  if (evaluation) {
    const auto improved = evaluate_now();
    completed = improved.has_value();
    best = improved.value_or(false);
  }
  // A checkpoint made when the evaluation was interrupted does not know its result yet.
  const bool outdated = evaluation && saved_at_ == progress_.windows;
  if (completed && (checkpoint || outdated || (best && plan.config.checkpoint.keep_best))) save(best);
  clock_ = Clock::now();
  return completed;
}

std::optional<bool> Trainer::evaluate_now() {
  EvalRun run;
  run.total_samples = parts_.plan.eval_samples;
  run.batch_size = parts_.plan.eval_batch;
  run.precision = parts_.step_options;
  run.progress = [this](int64_t done, int64_t total) {
    parts_.bus.emit(events::Progress{"evaluating", done, total});
  };
  run.go_on = [this] {
    tell_monitor(dist::Phase::evaluation);
    return !has_ranks() || !stop_agreed();
  };
  const auto result = evaluate(parts_.live.model, *parts_.eval_loader, run, parts_.world);
  for (auto& warning : parts_.eval_loader->take_warnings()) warn(std::move(warning));
  if (!result) return std::nullopt;
  const std::string& metric = parts_.plan.config.eval.best_metric;
  const double value = metric_value(metric, *result);
  const bool best = !progress_.best || better(metric, value, progress_.best->value);
  if (best) progress_.best = Best{value, result->top1, progress_.windows};
  progress_.last_evaluated = progress_.windows;
  final_top1_ = result->top1;
  const int64_t last_epoch = (progress_.samples_consumed - 1) / parts_.plan.samples_per_epoch;
  parts_.bus.emit(events::Evaluated{last_epoch, progress_.windows, result->loss, result->top1, result->top5,
                                    result->samples, result->seconds, best});
  return best;
}

void Trainer::save(bool best) {
  const auto start = Clock::now();
  tell_monitor(dist::Phase::checkpoint);
  if (has_ranks()) meet_ranks();
  const auto& settings = parts_.plan.config.checkpoint;
  const auto folder = save_checkpoint(parts_.checkpoints, parts_.live, progress_, parts_.plan,
                                      parts_.class_names, parts_.world, [&](const auto& saved) {
                                        if (best) checkpoint::point(parts_.checkpoints, "best", saved);
                                        checkpoint::point(parts_.checkpoints, "latest", saved);
                                        checkpoint::retain(parts_.checkpoints, settings.keep);
                                      });
  saved_at_ = progress_.windows;
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  parts_.bus.emit(events::CheckpointSaved{progress_.windows, folder.string(), seconds, best});
}

void Trainer::meet_ranks() {
  for (const auto& count : dist::gather_texts(parts_.world, std::to_string(std::exchange(corrupt_here_, 0))))
    progress_.corrupt_samples += std::stoll(count);
  dist::require_no_drift(parts_.world, progress_.windows, parts_.live.scaler.get_scale(),
                         progress_.skipped_steps, named_parameters(parts_.live.model));
}

Outcome Trainer::stop() {
  if (parts_.pulse != nullptr) parts_.pulse->stopping.store(true);
  agreement_.settle();
  settle();
  if (saved_at_ != progress_.windows) save();
  return Outcome::preempted;
}

void Trainer::tell(const StepRunner::Notice& notice) {
  using Level = events::Message::Level;
  parts_.bus.emit(events::Message{notice.warning ? Level::warning : Level::info, notice.text});
}

void Trainer::warn(std::string text) {
  parts_.bus.emit(events::Message{events::Message::Level::warning, std::move(text)});
}

double Trainer::samples_per_sec() const {
  return total_seconds_ > 0 ? static_cast<double>(total_samples_) / total_seconds_ : 0.0;
}

}  // namespace ampctl::train
