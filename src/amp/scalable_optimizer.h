// What the scaler needs of an optimizer. optim/ does not know amp/; train/ joins them with an adapter.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace ampctl::amp {

class ScalableOptimizer {
 public:
  virtual ~ScalableOptimizer() = default;
  /// Gradients of all parameters that have one, in parameter order; may be dense or sparse.
  [[nodiscard]] virtual std::vector<at::Tensor> gradients() const = 0;
  /// True when step() takes grad_scale and found_inf on the device.
  [[nodiscard]] virtual bool is_fused() const = 0;
  /// One update. `grad_scale` (undefined: gradients are unscaled already) and `found_inf` (0-dim float32; 1 =
  /// change nothing) are used by fused optimizers only; both may be undefined.
  virtual void step(const at::Tensor& grad_scale, const at::Tensor& found_inf) = 0;
};

}  // namespace ampctl::amp
