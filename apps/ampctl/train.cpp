#include "base/error.h"
#include "commands.h"
#include "config/load.h"
#include "job.h"
#include "launch/environment.h"
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

  const launch::LocalWorld world =
      launch::local_world(plan, world_request(config), launch::visible_gpus(variables));
  if (world.world_size == 1 && !wants_launcher(plan)) train_here(config, variables);
  return launch::run_job(make_job(config, plan, variables));
}

launch::WorldRequest world_request(const config::ExperimentConfig& config) {
  return {config.distributed.world_size, config.device, config.distributed.strategy == "data_parallel"};
}

}  // namespace ampctl::cli
