// One pass over all parameters that divides gradients by the loss scale, applies SGD's or Adam's rule to
// float32 parameters and their state, and writes the 16-bit copies that forward passes read. Registered with
// PyTorch's dispatcher as ampctl::sgd_update_ and ampctl::adam_update_ (schemas in param_update.cpp); the CPU
// and builds without CUDA kernels compose them of PyTorch's fused optimizers and one copy of lists.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace ampctl::kernels {

/// Lists of equal length, one entry a parameter. At each index: one shape, the same strides, no gaps.
struct UpdateLists {
  std::vector<at::Tensor> params;
  std::vector<at::Tensor> grads;                ///< of the parameter's dtype
  std::vector<std::vector<at::Tensor>> states;  ///< a list a kind of state, of the parameter's dtype
  std::vector<at::Tensor> copies;               ///< float16 or bfloat16; undefined: the parameter has none
  std::vector<double> weight_decays;
};

/// Inputs of one step, all on the parameters' device.
struct UpdateInputs {
  at::Tensor lr;    ///< 0-dim float32
  at::Tensor step;  ///< 0-dim float32: the run's updates, this one included; corrects every parameter's bias
  at::Tensor
      grad_scale;  ///< undefined, or 0-dim float32 that gradients are divided by (they may stay divided)
  at::Tensor found_inf;  ///< undefined, or 0-dim float32: 1 = this step changes nothing at all
};

/// See torch.optim.SGD and torch.optim.Adam(W) for the formulas.
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

/// States: momentum_buffer, or none where momentum is 0. Where `step` is 1 the buffer becomes the gradient
/// itself, undamped. On CUDA with float32 parameters one kernel updates up to 256 of them; their addresses
/// are arguments of the launch, so that CUDA graphs may replay it, and gradients may lie anywhere; they stay
/// as they are. Results are those of at::_fused_sgd_ up to the roundings of fused multiply-adds, at most one
/// unit in the last place of a sum's larger term; a copy is its parameter rounded to nearest even. Parameters
/// of other dtypes take the composition. Throws an internal error for lists that break what UpdateLists says.
void sgd_update_(const UpdateLists& lists, const SgdOptions& options, const UpdateInputs& inputs);
/// States: exp_avg, exp_avg_sq and, with amsgrad, max_exp_avg_sq. As above beside at::_fused_adam_
/// and at::_fused_adamw_; the latter's results bit for bit.
void adam_update_(const UpdateLists& lists, const AdamOptions& options, const UpdateInputs& inputs);

/// The same from stock operators, on any device: what the kernels are tested against.
void sgd_update_reference_(const UpdateLists& lists, const SgdOptions& options, const UpdateInputs& inputs);
void adam_update_reference_(const UpdateLists& lists, const AdamOptions& options, const UpdateInputs& inputs);

}  // namespace ampctl::kernels
