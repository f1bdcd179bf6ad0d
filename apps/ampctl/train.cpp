#include "commands.h"
#include "config/load.h"
#include "launch/environment.h"
#include "launch/worker_process.h"

namespace ampctl::cli {

int run_train(const TrainOptions& options) {
  const config::ExperimentConfig config = load(options.config);
  const launch::Variables variables = launch::process_variables();
  launch::require_world_of_one(config.distributed.world_size, launch::detect_job(variables));
  const auto worker = launch::find_worker(variables);
  const int fd = launch::make_inherited_file("ampctl-config", config::to_yaml(config));
  launch::become_worker(worker, {"train", "--config-fd", std::to_string(fd)});
}

}  // namespace ampctl::cli
