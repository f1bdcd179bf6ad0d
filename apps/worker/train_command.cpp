#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include <c10/util/Exception.h>

#include "base/durable_file.h"
#include "base/error.h"
#include "base/file_lock.h"
#include "commands.h"
#include "components.h"
#include "device_setup.h"
#include "dist/collectives.h"
#include "events/sinks.h"
#include "graph_options.h"
#include "launch/environment.h"
#include "ranks.h"
#include "run_folder.h"
#include "train/generators.h"
#include "train/memory_stats.h"
#include "train/trainer.h"

namespace ampctl::worker {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Rank 0 speaks for all; of the others only what is worth a warning is heard.
void add_console(events::EventBus& bus, const config::LogConfig& log, bool main) {
  events::ConsoleOptions options;
  options.mode = main ? events::parse_progress_mode(log.progress) : events::ProgressMode::none;
  options.level = main ? events::parse_level(log.level) : events::Message::Level::warning;
  bus.add("console", events::make_console(options));
}

config::RunPlan make_plan(const config::ExperimentConfig& config, const data::TrainEval& datasets,
                          const dist::World& world) {
  std::optional<config::DatasetFacts> eval;
  if (datasets.eval) eval = datasets.eval->facts();
  return config::resolve(config, datasets.train->facts(), eval,
                         {world.size(), world.device().is_cuda() ? "cuda" : "cpu"});
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
                const train::Trainer& trainer, const dist::World& world, Clock::time_point start) {
  if (!world.is_main()) return;
  const train::Progress& progress = trainer.progress();
  events::RunEnded ended;
  ended.outcome = outcome;
  ended.step = progress.windows;
  ended.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  ended.samples_per_sec = trainer.samples_per_sec();
  ended.max_allocated_gib = train::memory_stats(world.device()).max_allocated_gib;
  ended.skipped_steps = progress.skipped_steps;
  if (progress.best) ended.best_top1 = progress.best->top1;
  ended.final_top1 = trainer.final_top1();
  ended.message = message;
  bus.emit(ended);
}

// Ranks stop together, so the signal may have reached another one. That one says so in its own output.
std::string stop_reason(const StopSignals& signals, const dist::World& world) {
  const int number = signals.signal_number();
  if (number == 0) return "another rank was asked to stop";
  std::string reason = std::string("received SIG") + sigabbrev_np(number);
  if (!world.is_main()) std::printf("rank %d %s\n", static_cast<int>(world.rank()), reason.c_str());
  return reason;
}

int run(train::Trainer& trainer, const config::RunPlan& plan, events::EventBus& bus, const dist::World& world,
        const StopSignals& signals) {
  using EndedOutcome = events::RunEnded::Outcome;
  const auto start = Clock::now();
  try {
    if (trainer.run() == train::Outcome::done) {
      report_end(bus, EndedOutcome::done, "", trainer, world, start);
      return kExitDone;
    }
    report_end(bus, EndedOutcome::preempted, stop_reason(signals, world), trainer, world, start);
    return kExitPreempted;
  } catch (const c10::OutOfMemoryError& error) {
    const std::string text = train::out_of_memory_advice(plan, train::memory_stats(world.device()),
                                                         error.what_without_backtrace());
    report_end(bus, EndedOutcome::failed, text, trainer, world, start);
    throw environment_error(text);
  } catch (const c10::Error& error) {
    report_end(bus, EndedOutcome::failed, error.what_without_backtrace(), trainer, world, start);
    throw;
  } catch (const std::exception& error) {
    report_end(bus, EndedOutcome::failed, error.what(), trainer, world, start);
    throw;
  }
}

/// Everything that a rank does between joining and leaving the others.
class Training {
 public:
  Training(const config::ExperimentConfig& config, StopSignals& signals, Ranks& ranks, bool restarted)
      : config_(config),
        folder_(run_folder(config)),
        signals_(signals),
        ranks_(ranks),
        world_(ranks.world()),
        device_(world_.device()),
        resume_(restarted ? "auto" : config.checkpoint.resume) {
    add_console(bus_, config.log, world_.is_main());
  }

  int run() {
    ranks_.start_together([this] { prepare(); });
    ranks_.require_same_plan(*plan_);
    ranks_.start_together([this] { build(); });
    if (world_.size() > 1) ddp_ = join_ranks(*plan_, world_, parts_);
    ranks_.start_together([this] { find_past(); });
    resumed_from_ = shared_past();
    ranks_.start_together([this] { load(); });
    return train();
  }

 private:
  void prepare() {
    if (world_.is_main()) {
      make_folders(folder_.checkpoints);
      lock_.emplace(folder_.root);
    }
    datasets_ = data::open_datasets(config_.data, config_.seed);
    plan_ = make_plan(config_, datasets_, world_);
  }

  void build() {
    use_own_stream(device_);
    set_up_device(*plan_, device_, bus_);
    parts_ = build_training(*plan_, device_);
    if (plan_->config.distributed.strategy == "data_parallel" && parts_.replicas == nullptr) {
      bus_.emit(
          events::Message{events::Message::Level::warning,
                          "distributed.strategy is data_parallel, but this process sees one device only (" +
                              device_name(device_) + "): it trains on that one alone"});
    }
    if (world_.rank() > 0) train::seed_rank(plan_->config.seed, world_.rank(), 0, device_);
  }

  void find_past() {
    if (world_.is_main()) resumed_from_ = checkpoint_to_resume(folder_, resume_, bus_);
  }

  // Every rank goes on from what rank 0 found, whatever a file system shows the others.
  [[nodiscard]] std::optional<fs::path> shared_past() const {
    if (world_.size() == 1) return resumed_from_;
    const std::string found =
        dist::gather_texts(world_, resumed_from_ ? resumed_from_->string() : "").front();
    return found.empty() ? std::nullopt : std::optional<fs::path>(found);
  }

  [[nodiscard]] train::LiveState live() {
    return {*parts_.model, *parts_.optimizer, *parts_.scaler,
            *parts_.step,  device_,           parts_.working_weights.get()};
  }

  void load() {
    if (resumed_from_) progress_ = train::load_checkpoint(*resumed_from_, live(), *plan_, world_);
    if (!world_.is_main()) return;
    rewind(folder_, resumed_from_.value_or(""), resume_, progress_, bus_);
    open_run_files(folder_, plan_->config, bus_);
    bus_.emit(started_event(*plan_, device_, folder_, progress_, resumed_from_));
  }

  int train() {
    // Alone a request to stop ends even a wait for data; with others all must agree first.
    const std::atomic<bool>* stop = world_.size() == 1 ? &signals_.requested() : nullptr;
    const auto train_loader = build_train_loader(*plan_, datasets_.train, world_, stop);
    std::unique_ptr<data::Loader> eval_loader;
    if (datasets_.eval) eval_loader = build_eval_loader(*plan_, datasets_.eval, world_, stop);
    train::StepRunner runner(*parts_.step, device_, graph_options(*plan_, world_, *parts_.model));
    train::Trainer trainer(
        {*plan_, live(), runner, *parts_.recorder, step_options(*plan_), *train_loader, eval_loader.get(),
         parts_.parameter_names, datasets_.train->class_names(), folder_.checkpoints, bus_,
         signals_.requested(), world_, ranks_.monitor(), &pulse_},
        progress_);
    const auto deadline = ranks_.watch_stop(signals_.requested(), pulse_);
    signals_.started();
    return worker::run(trainer, *plan_, bus_, world_, signals_);
  }

  const config::ExperimentConfig& config_;
  RunFolder folder_;
  StopSignals& signals_;
  Ranks& ranks_;
  const dist::World& world_;
  c10::Device device_;
  std::string resume_;
  events::EventBus bus_;
  std::optional<FolderLock> lock_;
  data::TrainEval datasets_;
  std::optional<config::RunPlan> plan_;
  TrainComponents parts_;
  std::unique_ptr<dist::DistributedDataParallel> ddp_;
  std::optional<fs::path> resumed_from_;
  train::Progress progress_;
  train::Pulse pulse_;
};

}  // namespace

int train_command(const config::ExperimentConfig& config, StopSignals& signals) {
  const launch::WorkerPlace place = launch::worker_place(launch::process_variables());
  prepare_environment(config);
  Ranks ranks(place, config.distributed, choose_device(config.device, place));
  try {
    const int code = Training(config, signals, ranks, place.restart_count > 0).run();
    ranks.leave();
    return code;
  } catch (const std::exception& error) {
    // Alone, main says what happened and everything is destroyed in order.
    if (ranks.world().size() == 1) throw;
    ranks.end(describe(error));
  }
}

}  // namespace ampctl::worker
