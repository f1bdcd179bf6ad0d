// What will run: every choice made, every number worked out, nothing left optional that training needs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "catalog/source.h"
#include "config/experiment_config.h"

namespace ampctl::config {

using catalog::DatasetFacts;

/// What the launcher's variables or this host say.
struct WorldFacts {
  int64_t world_size = 1;      // processes that were started, or would be
  std::string device = "cpu";  // cpu | cuda, after `auto` was decided
  bool hypothetical = false;  // for its arithmetic only: replaces distributed.world_size, any size is allowed
};

enum class Precision { float32, tf32, float16, bfloat16 };

/// Lengths in optimizer steps that happened; the base rate already carries the scale_lr rule.
struct LrPlan {
  std::string name;
  double base_lr = 0.0;
  int64_t warmup_steps = 0;
  double warmup_start_factor = 0.0;
  int64_t total_steps = 0;
  int64_t steps_per_epoch = 0;
  int64_t step_size = 0;            // step
  std::vector<int64_t> milestones;  // multi_step
  double gamma = 0.1;
  double power = 1.0;
  double min_lr = 0.0;
};

struct RunPlan {
  ExperimentConfig config;  // as resolved: enough to repeat the run
  Precision precision = Precision::float32;
  bool scaler_enabled = false;
  bool allow_tf32 = false;
  std::string device;  // cpu | cuda
  int64_t world_size = 1;

  int64_t micro_batch = 0;  // samples a GPU and micro-step
  int64_t accumulation = 1;
  int64_t global_batch = 0;  // micro_batch * accumulation * world_size
  int64_t eval_batch = 0;

  int64_t train_samples = 0;      // of one epoch, before drop_last
  int64_t eval_samples = 0;       // 0: no evaluation
  int64_t samples_per_epoch = 0;  // trained on in one epoch, after drop_last
  int64_t steps_per_epoch = 0;    // windows an epoch
  int64_t total_windows = 0;      // windows of the whole run, skipped ones included
  int64_t num_classes = 0;
  int64_t channels = 0;
  int64_t input_height = 0;  // after the training transforms
  int64_t input_width = 0;

  LrPlan lr;
  int64_t eval_every_windows = 0;        // 0: only at the end
  int64_t checkpoint_every_windows = 0;  // 0: only at the end
};

/// Works out the plan. Throws usage errors (all cross-field problems in one message).
RunPlan resolve(const ExperimentConfig& config, const DatasetFacts& train,
                const std::optional<DatasetFacts>& eval, const WorldFacts& world);

/// The plan for people: batch arithmetic, steps, precision, schedule, memory estimate.
std::string to_text(const RunPlan& plan);

}  // namespace ampctl::config
