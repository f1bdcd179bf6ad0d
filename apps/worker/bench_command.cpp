#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <c10/util/Exception.h>

#include "amp/precision.h"
#include "base/durable_file.h"
#include "base/error.h"
#include "base/format.h"
#include "base/process_age.h"
#include "bench/device_limits.h"
#include "bench/operand_traffic.h"
#include "bench/profile.h"
#include "bench/report.h"
#include "bench/window_source.h"
#include "commands.h"
#include "components.h"
#include "device_setup.h"
#include "events/sinks.h"
#include "graph_options.h"
#include "launch/environment.h"
#include "library_versions.h"
#include "ranks.h"
#include "train/generators.h"
#include "train/memory_stats.h"

namespace ampctl::worker {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kProfiledSteps = 5;
constexpr int64_t kStepsBesideBlocks = 2 * kProfiledSteps + 1;  // profiled twice, and one to count traffic

// A run of just the steps measured, all of one size, with nothing in between.
config::ExperimentConfig measured_config(config::ExperimentConfig config, const bench::BlockPlan& blocks) {
  config.data.eval.reset();
  config.data.split = {};
  config.data.drop_last = true;
  config.train.epochs.reset();
  config.train.steps = blocks.total_steps() + kStepsBesideBlocks;
  config.eval = {};
  config.lr_schedule = {};
  // Rows of the recorder are fetched after each block.
  config.log.every_steps = std::max(blocks.warmup_steps, blocks.steps);
  return config;
}

/// What a rank builds, measures and reports.
class Measurement {
 public:
  Measurement(const config::ExperimentConfig& config, const BenchRequest& request, StopSignals& signals,
              Ranks& ranks)
      : config_(measured_config(config, request.blocks)),
        request_(request),
        signals_(signals),
        ranks_(ranks),
        world_(ranks.world()) {
    events::ConsoleOptions console;
    console.fd = STDERR_FILENO;
    console.mode = events::ProgressMode::none;
    console.level = events::Message::Level::warning;
    bus_.add("console", events::make_console(console));
  }

  int run() {
    ranks_.start_together([this] { prepare(); });
    ranks_.require_same_plan(*plan_);
    ranks_.start_together([this] { build(); });
    if (world_.size() > 1) ddp_ = join_ranks(*plan_, world_, parts_);
    make_runner();
    signals_.started();
    open_windows();
    measure();
    if (!report_.times.completed) return kExitPreempted;
    if (request_.profile) look_closer();
    if (world_.is_main()) write_text_file(request_.result, bench::to_json(report_, *plan_).dump());
    return kExitDone;
  }

  [[nodiscard]] const std::optional<config::RunPlan>& plan() const { return plan_; }

 private:
  void prepare() {
    dataset_ = data::open_datasets(config_.data, config_.seed).train;
    plan_ = config::resolve(config_, dataset_->facts(), std::nullopt,
                            {world_.size(), world_.device().is_cuda() ? "cuda" : "cpu"});
  }

  void build() {
    set_up_device(*plan_, world_.device(), bus_);
    use_own_stream(world_.device());
    parts_ = build_training(*plan_, world_.device());
    if (world_.rank() > 0) train::seed_rank(plan_->config.seed, world_.rank(), 0, world_.device());
  }

  void open_windows() {
    loader_ = build_train_loader(*plan_, dataset_, world_, &signals_.requested());
    windows_ = std::make_unique<bench::WindowSource>(*plan_, *loader_, world_);
    if (!request_.resident) return;
    resident_ = windows_->next();
    // Whatever else it holds on the device is no part of a step.
    windows_.reset();
    loader_.reset();
  }

  bench::Window next_window() {
    if (signals_.requested().load()) return {};
    return request_.resident ? resident_ : windows_->next();
  }

  void make_runner() {
    const train::GraphOptions options = graph_options(*plan_, world_, *parts_.model);
    const bool may_capture = options.wanted && !options.obstacle && train::has_step_graphs(world_.device());
    // Besides the capture itself, which takes a step's place.
    const int64_t needed = options.warm_up_steps + 2;
    if (may_capture && request_.blocks.warmup_steps < needed) {
      warn(
          "a warm-up of " + std::to_string(request_.blocks.warmup_steps) +
          " steps ends before the step is captured as a CUDA graph: eager steps and the capture are measured "
          "as well; use --warmup " +
          std::to_string(needed) + " or more, or train.cuda_graph=false");
    }
    runner_ = std::make_unique<train::StepRunner>(*parts_.step, world_.device(), options);
  }

  // The one place where steps are run.
  bench::Subject subject() {
    return {[this] { return next_window(); },
            [this](const bench::Window& window) { runner_->run(window, plan_->global_batch); },
            [this](const bench::Window& window) { parts_.step->run(window, plan_->global_batch); },
            [this] { take_rows(); }, world_.device()};
  }

  void warn(const std::string& text) {
    if (world_.is_main()) bus_.emit(events::Message{events::Message::Level::warning, text});
  }

  // Rows of the warm-up are taken in as well, so that the recorder never runs over.
  void take_rows() {
    for (const auto& row : parts_.recorder->drain().rows()) {
      if (row.found_inf) ++report_.skipped_steps;
      report_.loss = row.loss_sum / static_cast<double>(row.samples);
    }
  }

  void measure() {
    report_.device = device_name(world_.device());
    report_.resident = request_.resident;
    report_.libraries = library_versions();
    report_.blocks = request_.blocks;
    report_.times = bench::time_blocks(subject(), request_.blocks, [this] { say_first_step(); });
    const auto memory = train::memory_stats(world_.device());
    report_.cuda_graph = runner_->graphs() > 0;
    if (const auto notice = runner_->take_notice()) report_.eager_reason = notice->text;
    report_.memory = {memory.max_allocated_gib, memory.max_reserved_gib, bench::host_peak_gib()};
  }

  void say_first_step() {
    report_.first_step_seconds = process_age();
    if (!report_.first_step_seconds || !world_.is_main()) return;
    std::fprintf(stderr, "ampctl: first step after %s s\n",
                 format_significant(*report_.first_step_seconds, 4).c_str());
  }

  // A model that fills the device leaves no room for more; that is no reason to lose what was measured.
  void look_closer() {
    try {
      profile();
    } catch (const c10::OutOfMemoryError&) {
      if (world_.size() > 1) throw;
      warn(
          "the device has no memory left for what is measured behind the timed blocks: phases, kernels or "
          "limits are missing");
    }
  }

  // All ranks take the same steps; what is looked at is this rank's device.
  void profile() {
    const bench::Subject subject = this->subject();
    const auto steps = [&](const auto& run) {
      for (int64_t i = 0; i < kProfiledSteps; ++i) run(subject.next_window());
    };
    report_.profile = bench::profile_steps(world_.device(), kProfiledSteps, [&] { steps(subject.run); });
    report_.phases =
        bench::profile_steps(world_.device(), kProfiledSteps, [&] { steps(subject.run_eagerly); }).phases;
    report_.traffic_bytes = bench::operand_traffic([&] { subject.run_eagerly(subject.next_window()); });
    bench::synchronize(world_.device());
    report_.limits =
        bench::measure_limits(world_.device(), amp::autocast_dtype(plan_->precision).value_or(c10::kFloat));
  }

  const config::ExperimentConfig config_;
  const BenchRequest& request_;
  StopSignals& signals_;
  Ranks& ranks_;
  const dist::World& world_;
  events::EventBus bus_;
  data::DatasetPtr dataset_;
  std::optional<config::RunPlan> plan_;
  TrainComponents parts_;
  std::unique_ptr<dist::DistributedDataParallel> ddp_;
  std::unique_ptr<data::Loader> loader_;
  std::unique_ptr<bench::WindowSource> windows_;
  std::unique_ptr<train::StepRunner> runner_;
  bench::Window resident_;
  bench::Report report_;
};

}  // namespace

int bench_command(const config::ExperimentConfig& config, const BenchRequest& request, StopSignals& signals) {
  const launch::WorkerPlace place = launch::worker_place(launch::process_variables());
  prepare_environment(config);
  Ranks ranks(place, config.distributed, choose_device(config.device, place));
  std::optional<Measurement> measurement;
  Failure failure;
  try {
    const int code = measurement.emplace(config, request, signals, ranks).run();
    // Ranks that stop do so behind different steps: there is no leaving together.
    if (code != kExitDone && ranks.world().size() > 1) std::_Exit(code);
    measurement.reset();
    ranks.leave();
    return code;
  } catch (const c10::OutOfMemoryError& error) {
    failure = describe(error);
    if (measurement->plan()) {
      failure.message = train::out_of_memory_advice(
          *measurement->plan(), train::memory_stats(ranks.world().device()), error.what_without_backtrace());
    }
  } catch (const std::exception& error) {
    failure = describe(error);
  }
  if (place.rank == 0) write_text_file(request.result, Json{{"error", failure.message}}.dump());
  ranks.end(failure);
}

}  // namespace ampctl::worker
