// Every command: what somebody typed, as plain values, and the function that carries it out. A function
// returns the process's exit code and throws ampctl::Error otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config_source.h"
#include "launch/launch_options.h"
#include "launch/local_world.h"

namespace CLI {
class App;
}

namespace ampctl::cli {

struct TrainOptions {
  ConfigSource config;
  launch::LaunchOptions launch;
};
/// Checks the configuration, then becomes the worker that trains: in a job that others launched the worker of
/// its rank, else the only one; a world of several is launched here, and its exit code returned.
int run_train(const TrainOptions& options);

/// What a configuration says about the number of processes.
launch::WorldRequest world_request(const config::ExperimentConfig& config);

struct EvalOptions {
  ConfigSource config;
  std::optional<std::string> run;   ///< a run's folder, whose config.yaml is used
  std::string checkpoint = "best";  ///< latest | best | a checkpoint's folder
  bool json = false;
};
/// Becomes the worker that evaluates a checkpoint.
int run_eval(const EvalOptions& options);

struct BenchOptions {
  ConfigSource config;
  std::vector<std::string> compare;  ///< "KEY=V1,V2": every combination is measured
  int64_t warmup = 15;               ///< steps before the first block
  int64_t steps = 10;                ///< of a block
  int64_t blocks = 5;
  bool synthetic = false;  ///< made-up data of the same size, kept on the device
  bool resident = false;   ///< one window of the data, kept on the device
  bool profile = true;
  int64_t kernels = 10;                ///< rows of the table of kernels
  std::optional<std::string> json;     ///< file, or "-" for standard output instead of tables
  std::vector<std::string> arguments;  ///< the whole command line, for the record
};
/// Measures training steps, each variant in worker processes of its own, and prints what it found. A variant
/// that fails is reported as such; the exit code is then the first failure's.
int run_bench(const BenchOptions& options);

struct PlanOptions {
  ConfigSource config;
  std::optional<int64_t> world_size;  ///< instead of the configuration's
  bool json = false;
};
/// Prints what a run would do.
int run_plan(const PlanOptions& options);

struct ConfigShowOptions {
  ConfigSource config;
  bool comments = false;
};
/// Prints the resolved configuration as YAML.
int run_config_show(const ConfigShowOptions& options);

/// Reports every problem of a configuration; opens no data.
int run_config_validate(const ConfigSource& config);

struct ConfigDiffOptions {
  std::string left;  ///< a file, or a run's folder
  std::string right;
  bool json = false;
};
/// Prints the fields that differ between two configurations.
int run_config_diff(const ConfigDiffOptions& options);

/// Prints the JSON Schema of the experiment file.
int run_config_schema();

/// Prints docs/configuration.md.
int run_config_docs();

struct EnvOptions {
  bool json = false;
};
/// Prints what this machine offers, and warnings that matter for training.
int run_env(const EnvOptions& options);

struct InspectOptions {
  std::string path;  ///< a run's folder, a checkpoint's folder, or a safetensors file
  bool json = false;
};
/// Prints what is in a run or a checkpoint.
int run_inspect(const InspectOptions& options);

/// Prints the completion script for a shell (bash or zsh).
int run_completion(const CLI::App& app, const std::string& shell);

}  // namespace ampctl::cli
