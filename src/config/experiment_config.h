// What the user said: the experiment file, field by field, before anything is resolved.
// Every field's sentence, unit and range stand in config/describe.h; in-class values are the defaults.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/amp_config.h"
#include "config/data_config.h"
#include "config/optim_config.h"

namespace ampctl::config {

struct ModelConfig {
  std::string name;                    // a name of catalog/models.h
  std::optional<int64_t> num_classes;  // default: the data's classes
  bool channels_last = false;
  bool fused = true;                       // operators of our own
  std::vector<int64_t> hidden_sizes{256};  // mlp
  double dropout = 0.0;                    // mlp
  bool zero_init_residual = false;         // resnets
  std::optional<std::string> weights;      // safetensors file to start from (model weights only)

  bool operator==(const ModelConfig&) const = default;
};

struct TrainConfig {
  std::optional<int64_t> epochs;  // exactly one of epochs and steps
  std::optional<int64_t> steps;   // optimizer steps
  std::optional<int64_t> gradient_accumulation_steps;
  std::optional<double> clip_grad_norm;  // max_norm of the unscaled gradients
  std::optional<double> clip_grad_value;
  double label_smoothing = 0.0;
  bool deterministic = false;
  bool cudnn_benchmark = true;
  bool cuda_graph = true;                             // where the step can be captured
  std::optional<int64_t> num_threads;                 // intra-op CPU threads
  std::vector<std::string> activation_checkpointing;  // name patterns (shell globs)

  bool operator==(const TrainConfig&) const = default;
};

struct EvalConfig {
  std::optional<int64_t> every_epochs;  // default 1 when every_steps is absent; 0 = only at the end
  std::optional<int64_t> every_steps;
  std::optional<int64_t> batch_size;      // default: data.batch_size
  std::string best_metric = "eval/top1";  // eval/top1 | eval/top5 | eval/loss

  bool operator==(const EvalConfig&) const = default;
};

struct DistributedConfig {
  std::optional<int64_t> world_size;  // null or "auto"
  std::string strategy = "ddp";       // ddp | data_parallel
  std::string backend = "auto";       // auto | nccl | gloo
  double timeout = 600.0;             // seconds
  double bucket_cap_mb = 25.0;
  std::string gradient_compression = "none";  // none | float16 | bfloat16
  bool gradient_as_bucket_view = true;
  bool broadcast_buffers = true;
  bool find_unused_parameters = false;
  bool sync_batch_norm = false;

  bool operator==(const DistributedConfig&) const = default;
};

struct CheckpointConfig {
  std::optional<int64_t> every_steps;
  std::optional<int64_t> every_epochs;  // default 1 when every_steps is absent
  int64_t keep = 3;
  bool keep_best = true;
  std::string resume = "auto";  // auto | never | latest | best | PATH

  bool operator==(const CheckpointConfig&) const = default;
};

struct LogConfig {
  int64_t every_steps = 50;
  std::string progress = "auto";  // auto | bar | plain | none
  std::string level = "info";
  std::string cuda_sync_debug = "off";  // off | warn | error: PyTorch's sync debug mode between logging steps

  bool operator==(const LogConfig&) const = default;
};

struct ExperimentConfig {
  int64_t seed = 42;
  std::string device = "cuda";  // cuda | cpu | auto
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  EvalConfig eval;
  OptimizerConfig optimizer;
  LrScheduleConfig lr_schedule;
  AmpConfig amp;
  DistributedConfig distributed;
  CheckpointConfig checkpoint;
  LogConfig log;
  std::string output = "runs/default";

  bool operator==(const ExperimentConfig&) const = default;
};

}  // namespace ampctl::config
