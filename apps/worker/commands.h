// The worker's commands. Each returns the process's exit code.
#pragma once

#include <string>

#include "config/experiment_config.h"
#include "stop_signals.h"

namespace ampctl::worker {

int train_command(const config::ExperimentConfig& config, StopSignals& signals);

struct EvalRequest {
  std::string checkpoint = "best";  ///< latest | best | a checkpoint folder | a .safetensors file of weights
  bool json = false;
};
int eval_command(const config::ExperimentConfig& config, const EvalRequest& request, StopSignals& signals);

}  // namespace ampctl::worker
