// Optimizers whose step never reads the device: learning rate, step count, grad_scale and found_inf are
// tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/param_update.h"

namespace ampctl::optim {

/// Parameters that share a weight decay. Parameters are leaves; their gradients are read at each step.
struct ParamGroup {
  std::vector<std::string> names;
  std::vector<at::Tensor> params;
  double weight_decay = 0.0;
};

/// Of one step, all on the parameters' device.
using StepInputs = kernels::UpdateInputs;

/// A parameter and the 16-bit copy that forward passes read in its place.
using WorkingCopy = std::pair<at::Tensor, at::Tensor>;

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
  /// From now on every step writes these copies, too: each its parameter's value in the copy's dtype. Copies
  /// have their parameter's shape and strides. Pairs of parameters that are not this optimizer's (frozen
  /// ones) are left alone; an empty list ends it. Throws an internal error for a copy of another layout.
  virtual void set_working_copies(const std::vector<WorkingCopy>& copies) = 0;
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

using SgdOptions = kernels::SgdOptions;
using AdamOptions = kernels::AdamOptions;

/// Both throw usage errors for options that torch.optim refuses too. `fused`: kernels::sgd_update_ and
/// kernels::adam_update_, no host reads; else a plain composition of stock operators that reads learning
/// rate, step count and found_inf on the host, for comparison.
///
/// SGD: as in PyTorch, a momentum buffer's first value is the gradient itself, undamped. PyTorch counts that
/// by parameter; here it is the run's first update (step = 1), so that with dampening != 0 a parameter that
/// gets its first gradient only later is damped from the start. Without dampening both agree.
std::unique_ptr<Optimizer> make_sgd(std::vector<ParamGroup> groups, const SgdOptions& options, bool fused);
std::unique_ptr<Optimizer> make_adam(std::vector<ParamGroup> groups, const AdamOptions& options, bool fused);

}  // namespace ampctl::optim
