#include "job.h"

#include <algorithm>
#include <filesystem>

#include "base/host_name.h"
#include "commands.h"
#include "config/load.h"
#include "launch/host.h"
#include "launch/worker_process.h"

namespace ampctl::cli {
namespace {

int64_t threads_per_rank(const launch::LaunchJob& job) {
  int64_t threads = launch::read_host(".").usable_cores / job.world.local_world_size;
  for (const auto& place : job.cpus) {
    if (!place.cpus.empty()) threads = std::min(threads, static_cast<int64_t>(place.cpus.size()));
  }
  return std::max<int64_t>(threads, 1);
}

}  // namespace

launch::LaunchJob make_job(const config::ExperimentConfig& config, const launch::LaunchPlan& plan,
                           const launch::Variables& variables) {
  const auto gpus = launch::visible_gpus(variables);
  launch::LaunchJob job;
  job.world = launch::local_world(plan, world_request(config), gpus);
  job.worker = launch::find_worker(variables);
  job.config = config::to_yaml(config);
  job.environment = variables;
  job.plan = plan;
  job.log_dir =
      plan.log_dir ? std::filesystem::path(*plan.log_dir) : std::filesystem::path(config.output) / "logs";
  job.host = host_name();
  const auto ranks = static_cast<std::size_t>(job.world.local_world_size);
  if (config.device != "cpu" && gpus.size() >= ranks) {
    job.cpus = launch::place_ranks({gpus.begin(), gpus.begin() + job.world.local_world_size},
                                   launch::allowed_cpus());
  }
  job.threads_per_rank = threads_per_rank(job);
  return job;
}

}  // namespace ampctl::cli
