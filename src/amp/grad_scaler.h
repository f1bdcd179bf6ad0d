// Dynamic loss scaling with PyTorch's API and rules (torch/amp/grad_scaler.py, 2.11), state on the device.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "amp/scalable_optimizer.h"

namespace ampctl::amp {

struct GradScalerOptions {
  double init_scale = 65536.0;
  double growth_factor = 2.0;   ///< > 1
  double backoff_factor = 0.5;  ///< < 1
  int64_t growth_interval = 2000;
  bool enabled = true;
};

/// Names as in PyTorch's state_dict.
struct GradScalerState {
  double scale = 65536.0;
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;
  int64_t growth_tracker = 0;
};

class GradScaler {
 public:
  /// Throws a usage error for growth_factor <= 1 or backoff_factor >= 1.
  explicit GradScaler(const GradScalerOptions& options);

  /// outputs * scale. The first call places scale (0-dim float32) and growth tracker (0-dim int32) on the
  /// device of `outputs`.
  at::Tensor scale(const at::Tensor& outputs);

  /// Divides the optimizer's gradients by the scale in place and records non-finite values. Errors as
  /// PyTorch's: twice, after step, before scale, float16 gradients.
  void unscale_(ScalableOptimizer& optimizer);

  /// Steps unless a gradient is not finite. A fused optimizer gets grad_scale and found_inf and nothing is
  /// read on the host; otherwise found_inf is. Calls unscale_ first when that was not done.
  void step(ScalableOptimizer& optimizer);

  /// Takes found_inf (0-dim float32, 0 or 1) from a caller that looked at this optimizer's gradients already
  /// (kernels::grad_stats, agreed upon by all ranks): a fused step() then makes no pass of its own, and
  /// unscale_ adds what it finds.
  void set_found_inf(ScalableOptimizer& optimizer, const at::Tensor& found_inf);

  /// The optimizer's found_inf of this iteration (0-dim float32, 0 or 1, on the scale's device); undefined
  /// before a check.
  [[nodiscard]] at::Tensor found_inf(const ScalableOptimizer& optimizer) const;

  /// Next scale by the rule, from all optimizers' found_inf; or `new_scale`, which keeps the growth tracker.
  void update(std::optional<double> new_scale = std::nullopt);
  /// Next scale by the rule, from one found_inf (0-dim float32, nonzero = overflow), for step bodies that
  /// check and step without this class's stages.
  void update_from_found_inf(const at::Tensor& found_inf);

  [[nodiscard]] bool is_enabled() const { return options_.enabled; }
  [[nodiscard]] double get_scale() const;            ///< reads the device
  [[nodiscard]] int64_t get_growth_tracker() const;  ///< reads the device
  [[nodiscard]] double get_growth_factor() const { return options_.growth_factor; }
  [[nodiscard]] double get_backoff_factor() const { return options_.backoff_factor; }
  [[nodiscard]] int64_t get_growth_interval() const { return options_.growth_interval; }
  void set_growth_factor(double value);
  void set_backoff_factor(double value);
  void set_growth_interval(int64_t value);

  /// Device tensors for code that must not read the host (step body, recorder); undefined before the first
  /// scale().
  [[nodiscard]] const at::Tensor& scale_tensor() const { return scale_; }
  [[nodiscard]] const at::Tensor& growth_tracker_tensor() const { return growth_tracker_; }
  /// Makes the device state now, instead of at the first scale().
  void materialize(const c10::Device& device);

  /// nullopt when disabled (PyTorch: {}).
  [[nodiscard]] std::optional<GradScalerState> state_dict() const;
  /// Throws for nullopt when enabled, as PyTorch does for an empty dict.
  void load_state_dict(const std::optional<GradScalerState>& state);

 private:
  enum class Stage { ready, unscaled, stepped };
  struct PerOptimizer {
    Stage stage = Stage::ready;
    std::vector<at::Tensor> found_inf;  // one a device
  };
  void require_scale(const char* function) const;
  // found_inf, one a device, of gradients that are multiplied by inv_scale in place.
  [[nodiscard]] std::vector<at::Tensor> unscale_grads_(const std::vector<at::Tensor>& grads,
                                                       const at::Tensor& inv_scale, bool allow_fp16) const;
  void step_fused(ScalableOptimizer& optimizer, PerOptimizer& state);
  void step_unfused(ScalableOptimizer& optimizer, PerOptimizer& state);

  GradScalerOptions options_;
  double init_scale_;
  int64_t init_growth_tracker_ = 0;
  at::Tensor scale_;
  at::Tensor growth_tracker_;
  std::unordered_map<const ScalableOptimizer*, PerOptimizer> per_optimizer_;
};

}  // namespace ampctl::amp
