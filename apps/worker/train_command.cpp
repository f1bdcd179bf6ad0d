#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>

#include <c10/util/Exception.h>

#include "base/durable_file.h"
#include "base/error.h"
#include "base/file_lock.h"
#include "checkpoint/checkpoint.h"
#include "commands.h"
#include "components.h"
#include "config/load.h"
#include "device_setup.h"
#include "events/sinks.h"
#include "events/truncate.h"
#include "train/memory_stats.h"
#include "train/trainer.h"

namespace ampctl::worker {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kMetricsFile = "metrics.jsonl";
constexpr const char* kSummaryFile = "summary.csv";
constexpr const char* kLogFile = "train.log";
constexpr const char* kConfigFile = "config.yaml";

/// The run's folder: what it holds already, where things go.
struct RunFolder {
  fs::path root;
  fs::path checkpoints;
};

void add_console(events::EventBus& bus, const config::LogConfig& log) {
  events::ConsoleOptions options;
  options.mode = events::parse_progress_mode(log.progress);
  options.level = events::parse_level(log.level);
  bus.add("console", events::make_console(options));
}

void add_files(events::EventBus& bus, const RunFolder& folder, const config::LogConfig& log) {
  bus.add(kMetricsFile, events::make_jsonl(folder.root / kMetricsFile));
  bus.add(kSummaryFile, events::make_csv(folder.root / kSummaryFile));
  bus.add(kLogFile, events::make_log(folder.root / kLogFile, events::parse_level(log.level)));
}

std::optional<fs::path> checkpoint_to_resume(const RunFolder& folder, const std::string& resume,
                                             events::EventBus& bus) {
  if (resume == "never") {
    if (fs::exists(folder.root / kMetricsFile) || !checkpoint::list(folder.checkpoints).empty()) {
      throw usage_error(folder.root.string() +
                        ": expected a new folder (checkpoint.resume is never), found a run in it; "
                        "choose another `output`, remove the folder, or use --resume auto to go on");
    }
    return std::nullopt;
  }
  return checkpoint::find(folder.checkpoints, resume, [&bus](const std::string& text) {
    bus.emit(events::Message{events::Message::Level::warning, text});
  });
}

// What a resumed run finds in its folder must be its own past. Going on from an older checkpoint gives up
// what came after it; a checkpoint from elsewhere belongs into a folder without a run.
void rewind(const RunFolder& folder, const fs::path& from, int64_t step, events::EventBus& bus) {
  if (!fs::equivalent(from.parent_path(), folder.checkpoints)) {
    if (checkpoint::list(folder.checkpoints).empty()) return;
    throw usage_error(folder.root.string() + ": expected a folder without a run to continue " +
                      from.string() + " in, found checkpoints of a run; choose another `output`");
  }
  const auto discarded = checkpoint::discard_newer(folder.checkpoints, step);
  if (discarded.empty()) return;
  bus.emit(events::Message{events::Message::Level::warning,
                           "going on from step " + std::to_string(step) + ": removed " +
                               std::to_string(discarded.size()) + " later checkpoints, up to step " +
                               std::to_string(discarded.back())});
}

config::RunPlan make_plan(const config::ExperimentConfig& config, const data::TrainEval& datasets,
                          c10::Device device) {
  std::optional<config::DatasetFacts> eval;
  if (datasets.eval) eval = datasets.eval->facts();
  return config::resolve(config, datasets.train->facts(), eval, {1, device.is_cuda() ? "cuda" : "cpu"});
}

events::RunStarted started_event(const config::RunPlan& plan, c10::Device device, const RunFolder& folder,
                                 const train::Progress& progress,
                                 const std::optional<fs::path>& resumed_from) {
  events::RunStarted started;
  started.plan_text = config::to_text(plan);
  started.device = device_name(device);
  started.output = folder.root.string();
  started.total_steps = plan.total_windows;
  started.steps_per_epoch = plan.steps_per_epoch;
  started.start_step = progress.windows;
  if (resumed_from) started.resumed_from = resumed_from->string();
  return started;
}

void report_end(events::EventBus& bus, events::RunEnded::Outcome outcome, const std::string& message,
                const train::Trainer& trainer, c10::Device device, Clock::time_point start) {
  const train::Progress& progress = trainer.progress();
  events::RunEnded ended;
  ended.outcome = outcome;
  ended.step = progress.windows;
  ended.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  ended.samples_per_sec = trainer.samples_per_sec();
  ended.max_allocated_gib = train::memory_stats(device).max_allocated_gib;
  ended.skipped_steps = progress.skipped_steps;
  if (progress.best) ended.best_top1 = progress.best->top1;
  ended.final_top1 = trainer.final_top1();
  ended.message = message;
  bus.emit(ended);
}

int run(train::Trainer& trainer, const config::RunPlan& plan, events::EventBus& bus, c10::Device device,
        const StopSignals& signals) {
  using EndedOutcome = events::RunEnded::Outcome;
  const auto start = Clock::now();
  try {
    if (trainer.run() == train::Outcome::done) {
      report_end(bus, EndedOutcome::done, "", trainer, device, start);
      return kExitDone;
    }
    report_end(bus, EndedOutcome::preempted,
               std::string("received SIG") + sigabbrev_np(signals.signal_number()), trainer, device, start);
    return kExitPreempted;
  } catch (const c10::OutOfMemoryError& error) {
    const std::string text =
        train::out_of_memory_advice(plan, train::memory_stats(device), error.what_without_backtrace());
    report_end(bus, EndedOutcome::failed, text, trainer, device, start);
    throw environment_error(text);
  } catch (const c10::Error& error) {
    report_end(bus, EndedOutcome::failed, error.what_without_backtrace(), trainer, device, start);
    throw;
  } catch (const std::exception& error) {
    report_end(bus, EndedOutcome::failed, error.what(), trainer, device, start);
    throw;
  }
}

}  // namespace

int train_command(const config::ExperimentConfig& config, StopSignals& signals) {
  const RunFolder folder{config.output, fs::path(config.output) / "checkpoints"};
  make_folders(folder.checkpoints);
  const FolderLock lock(folder.root);

  events::EventBus bus;
  add_console(bus, config.log);
  prepare_environment(config);
  const c10::Device device = choose_device(config.device);
  const data::TrainEval datasets = data::open_datasets(config.data, config.seed);
  const config::RunPlan plan = make_plan(config, datasets, device);
  const auto resumed_from = checkpoint_to_resume(folder, config.checkpoint.resume, bus);
  set_up_device(plan, device, bus);

  TrainComponents parts = build_training(plan, device);
  const train::LiveState live{*parts.model, *parts.optimizer, *parts.scaler, *parts.step, device};
  train::Progress progress;
  if (resumed_from) {
    progress = train::load_checkpoint(*resumed_from, live, plan);
    // `auto` and `latest` pass over damaged checkpoints only; those stay until the run saves their step
    // again.
    const std::string& resume = config.checkpoint.resume;
    if (resume != "auto" && resume != "latest") rewind(folder, *resumed_from, progress.windows, bus);
  }

  for (const char* name : {kMetricsFile, kSummaryFile})
    events::truncate_after(folder.root / name, progress.windows, progress.last_evaluated == progress.windows);
  write_text_file(folder.root / kConfigFile, config::to_yaml(plan.config));
  add_files(bus, folder, config.log);
  bus.emit(started_event(plan, device, folder, progress, resumed_from));

  const auto& stop = signals.requested();
  const auto train_loader = build_train_loader(plan, datasets.train, device, stop);
  std::unique_ptr<data::Loader> eval_loader;
  if (datasets.eval) eval_loader = build_eval_loader(plan, datasets.eval, device, stop);
  train::Trainer trainer(
      {plan, live, *parts.recorder, step_options(plan), *train_loader, eval_loader.get(),
       parts.parameter_names, datasets.train->class_names(), folder.checkpoints, bus, stop},
      progress);
  signals.started();
  return run(trainer, plan, bus, device, signals);
}

}  // namespace ampctl::worker
