// The worker's commands. Each returns the process's exit code.
#pragma once

#include <filesystem>
#include <string>

#include "bench/blocks.h"
#include "config/experiment_config.h"
#include "stop_signals.h"

namespace ampctl::worker {

int train_command(const config::ExperimentConfig& config, StopSignals& signals);

struct EvalRequest {
  std::string checkpoint = "best";  ///< latest | best | a checkpoint folder | a .safetensors file of weights
  bool json = false;
};
int eval_command(const config::ExperimentConfig& config, const EvalRequest& request, StopSignals& signals);

struct BenchRequest {
  bench::BlockPlan blocks;
  bool resident = false;         ///< one window of batches, kept on the device
  bool profile = true;           ///< also where the time goes, and what the device could do
  std::filesystem::path result;  ///< rank 0 writes its findings there, or {"error": …}
};
/// Measures training steps of the configuration, which must hold as many and drop an epoch's shorter end.
int bench_command(const config::ExperimentConfig& config, const BenchRequest& request, StopSignals& signals);

}  // namespace ampctl::worker
