#include "base/error.h"
#include "commands.h"
#include "config/load.h"
#include "launch/environment.h"
#include "launch/worker_place.h"
#include "launch/worker_process.h"

namespace ampctl::cli {
namespace {

// A run's folder may have been moved or copied since: what lies there is evaluated, not what its
// configuration once called its output.
ConfigSource source_of(const EvalOptions& options) {
  if (!options.run) {
    if (options.config.files.empty()) {
      throw usage_error(
          "nothing to evaluate: name a run's folder (ampctl eval runs/quickstart) or its "
          "experiment file (-c)");
    }
    return options.config;
  }
  if (!options.config.files.empty()) {
    throw usage_error("both a run's folder (" + *options.run + ") and an experiment file (-c " +
                      options.config.files.front() + ") were given: name one of them");
  }
  ConfigSource source;
  source.files = {config_file(*options.run)};
  source.overrides = {text_override("output", *options.run)};
  source.overrides.insert(source.overrides.end(), options.config.overrides.begin(),
                          options.config.overrides.end());
  return source;
}

}  // namespace

int run_eval(const EvalOptions& options) {
  const config::ExperimentConfig config = load(source_of(options));
  const launch::Variables variables = launch::process_variables();
  const launch::WorkerPlace place = launch::worker_place(variables);
  if (place.world_size != 1) {
    throw usage_error("evaluation runs in one process, but " + place.launcher + " says " + place.evidence +
                      ": start one process without the launcher");
  }
  const auto worker = launch::find_worker(variables);
  const int fd = launch::make_inherited_file("ampctl-config", config::to_yaml(config));
  std::vector<std::string> arguments{"eval", "--config-fd", std::to_string(fd), "--checkpoint",
                                     options.checkpoint};
  if (options.json) arguments.emplace_back("--json");
  launch::become_worker(worker, arguments);
}

}  // namespace ampctl::cli
