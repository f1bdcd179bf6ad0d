// Optimizers whose step never reads the device: learning rate, step count, grad_scale and found_inf are
// tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace ampctl::optim {

/// Parameters that share a weight decay. Parameters are leaves; their gradients are read at each step.
struct ParamGroup {
  std::vector<std::string> names;
  std::vector<at::Tensor> params;
  double weight_decay = 0.0;
};

/// Inputs of one step, all on the parameters' device.
struct StepInputs {
  at::Tensor lr;    ///< 0-dim float32
  at::Tensor step;  ///< 0-dim float32: the run's updates, this one included; corrects every parameter's bias
  at::Tensor
      grad_scale;  ///< undefined, or 0-dim float32 that gradients are divided by (they may stay divided)
  at::Tensor found_inf;  ///< undefined, or 0-dim float32: 1 = this step changes nothing at all
};

class Optimizer {
 public:
  /// Throws an internal error for groups whose names and parameters differ in number, and for parameters that
  /// are not leaves or whose memory has gaps.
  explicit Optimizer(std::vector<ParamGroup> groups);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter that has a gradient; the others keep value and state. Gradients must be dense
  /// and of their parameter's dtype.
  virtual void step(const StepInputs& inputs) = 0;
  [[nodiscard]] virtual bool is_fused() const = 0;
  /// State tensors by name ("momentum_buffer.layer1.0.conv1.weight", "exp_avg.…"), made at construction, all
  /// zeros: what checkpoints save and load in place.
  [[nodiscard]] virtual std::vector<std::pair<std::string, at::Tensor>> named_state() const = 0;

  [[nodiscard]] const std::vector<ParamGroup>& groups() const { return groups_; }
  /// Defined gradients of all groups, in order.
  [[nodiscard]] std::vector<at::Tensor> gradients() const;
  /// One entry a parameter, undefined where it has no gradient: so that entry i belongs to
  /// parameter_names()[i] (kernels::grad_stats takes such a list).
  [[nodiscard]] std::vector<at::Tensor> gradients_or_undefined() const;
  /// Names of all groups' parameters, in order.
  [[nodiscard]] std::vector<std::string> parameter_names() const;
  void zero_grad(bool set_to_none = true);

 protected:
  std::vector<ParamGroup> groups_;
};

/// As config's optimizer section; see torch.optim.SGD and torch.optim.Adam(W) for the formulas.
struct SgdOptions {
  double momentum = 0.0;
  double dampening = 0.0;
  bool nesterov = false;
};
struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  bool amsgrad = false;
  bool decoupled_weight_decay = true;  ///< AdamW; false: Adam
};

/// Both throw usage errors for options that torch.optim refuses too. `fused`: LibTorch's multi-tensor
/// kernels, no host reads; else a plain composition of stock operators that reads learning rate, step count
/// and found_inf on the host, for comparison.
///
/// SGD: as in PyTorch, a momentum buffer's first value is the gradient itself, undamped. PyTorch counts that
/// by parameter; here it is the run's first update (step = 1), so that with dampening != 0 a parameter that
/// gets its first gradient only later is damped from the start. Without dampening both agree.
std::unique_ptr<Optimizer> make_sgd(std::vector<ParamGroup> groups, const SgdOptions& options, bool fused);
std::unique_ptr<Optimizer> make_adam(std::vector<ParamGroup> groups, const AdamOptions& options, bool fused);

}  // namespace ampctl::optim
