#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "commands.h"
#include "config/load.h"
#include "launch/environment.h"
#include "launch/host.h"
#include "launch/launcher.h"
#include "launch/visible_gpus.h"
#include "launch/worker_place.h"
#include "launch/worker_process.h"

namespace ampctl::cli {
namespace {

[[noreturn]] void train_here(const config::ExperimentConfig& config, const launch::Variables& variables) {
  const auto worker = launch::find_worker(variables);
  const int fd = launch::make_inherited_file("ampctl-config", config::to_yaml(config));
  launch::become_worker(worker, {"train", "--config-fd", std::to_string(fd)});
}

void require_no_flags(const launch::LaunchOptions& options, const launch::WorkerPlace& place) {
  const std::string flag = options.first_given();
  if (flag.empty()) return;
  throw usage_error(flag + " starts processes, but this one already is rank " + std::to_string(place.rank) +
                    " of " + std::to_string(place.world_size) + " (" + place.launcher + " says " +
                    place.evidence + "): leave the flag out and let " + place.launcher +
                    " start one process a GPU, or start ampctl outside of that job");
}

// What only a launcher does is asked for, also for one process.
bool wants_launcher(const launch::LaunchPlan& plan) {
  return plan.max_restarts > 0 || plan.log_dir || plan.redirects.given() || plan.tee.given();
}

int64_t threads_per_rank(const launch::LaunchJob& job) {
  int64_t threads = launch::read_host(".").usable_cores / job.world.local_world_size;
  for (const auto& place : job.cpus) {
    if (!place.cpus.empty()) threads = std::min(threads, static_cast<int64_t>(place.cpus.size()));
  }
  return std::max<int64_t>(threads, 1);
}

}  // namespace

int run_train(const TrainOptions& options) {
  const launch::LaunchPlan plan = launch::checked(options.launch);
  const config::ExperimentConfig config = load(options.config);
  const launch::Variables variables = launch::process_variables();
  const launch::WorkerPlace place = launch::worker_place(variables);
  if (!place.launcher.empty()) {
    require_no_flags(options.launch, place);
    static_cast<void>(launch::world_size(config.distributed.world_size, place));
    train_here(config, variables);
  }

  const auto gpus = launch::visible_gpus(variables);
  launch::LaunchJob job;
  job.world = launch::local_world(plan, world_request(config), gpus);
  if (job.world.world_size == 1 && !wants_launcher(plan)) train_here(config, variables);
  job.worker = launch::find_worker(variables);
  job.config = config::to_yaml(config);
  job.environment = variables;
  job.plan = plan;
  job.log_dir =
      plan.log_dir ? std::filesystem::path(*plan.log_dir) : std::filesystem::path(config.output) / "logs";
  job.host = launch::host_name();
  const auto ranks = static_cast<std::size_t>(job.world.local_world_size);
  if (config.device != "cpu" && gpus.size() >= ranks) {
    job.cpus = launch::place_ranks({gpus.begin(), gpus.begin() + job.world.local_world_size},
                                   launch::allowed_cpus());
  }
  job.threads_per_rank = threads_per_rank(job);
  return launch::run_job(job);
}

launch::WorldRequest world_request(const config::ExperimentConfig& config) {
  return {config.distributed.world_size, config.device, config.distributed.strategy == "data_parallel"};
}

}  // namespace ampctl::cli
