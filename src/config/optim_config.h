// The optimizer: and lr_schedule: sections.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ampctl::config {

struct OptimizerConfig {
  std::string name = "sgd";  // sgd | adam | adamw
  double lr = 0.1;
  double momentum = 0.9;  // sgd
  double dampening = 0.0;
  bool nesterov = false;
  std::array<double, 2> betas{0.9, 0.999};  // adam, adamw
  double eps = 1e-8;
  bool amsgrad = false;
  double weight_decay = 0.0;
  std::optional<double> bias_weight_decay;  // default: weight_decay (torchvision's names)
  std::optional<double> norm_weight_decay;
  bool fused = true;  // false: reference implementation, reads found_inf on the host

  bool operator==(const OptimizerConfig&) const = default;
};

struct ScaleLrConfig {
  std::string rule = "none";  // none | linear | sqrt
  int64_t base_batch_size = 256;

  bool operator==(const ScaleLrConfig&) const = default;
};

/// Lengths may be given in epochs or in optimizer steps, never both.
struct LrScheduleConfig {
  std::string name = "constant";  // constant | step | multi_step | exponential | polynomial | cosine
  std::optional<double> warmup_epochs;
  std::optional<int64_t> warmup_steps;
  double warmup_start_factor = 0.0;         // of lr; linear to 1
  std::optional<int64_t> step_size_epochs;  // step
  std::optional<int64_t> step_size_steps;
  std::vector<int64_t> milestones_epochs;  // multi_step, rising
  std::vector<int64_t> milestones_steps;
  double gamma = 0.1;   // step, multi_step; exponential per epoch
  double power = 1.0;   // polynomial
  double min_lr = 0.0;  // polynomial, cosine: where they end
  ScaleLrConfig scale_lr;

  bool operator==(const LrScheduleConfig&) const = default;
};

}  // namespace ampctl::config
