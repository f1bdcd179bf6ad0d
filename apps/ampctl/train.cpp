#include "commands.h"
#include "config/load.h"
#include "launch/environment.h"
#include "launch/worker_place.h"
#include "launch/worker_process.h"

namespace ampctl::cli {

int run_train(const TrainOptions& options) {
  const config::ExperimentConfig config = load(options.config);
  const launch::Variables variables = launch::process_variables();
  static_cast<void>(launch::world_size(config.distributed.world_size, launch::worker_place(variables)));
  const auto worker = launch::find_worker(variables);
  const int fd = launch::make_inherited_file("ampctl-config", config::to_yaml(config));
  launch::become_worker(worker, {"train", "--config-fd", std::to_string(fd)});
}

}  // namespace ampctl::cli
