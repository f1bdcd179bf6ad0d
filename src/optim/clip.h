// Gradient clipping without host reads.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace ampctl::optim {

/// Total 2-norm of gradients that carry a factor `grad_scale` (undefined: none), unscaled: 0-dim float32.
/// Squares are summed in float64 (kernels::grad_stats); undefined gradients count as zero.
at::Tensor grad_norm(const std::vector<at::Tensor>& grads, const at::Tensor& grad_scale);

/// torch.nn.utils.clip_grad_norm_'s coefficient min(1, max_norm / (norm + 1e-6)): 0-dim float32.
at::Tensor clip_coefficient(const at::Tensor& norm, double max_norm);

/// grads *= coefficient, in place; `coefficient` 0-dim. Undefined gradients are left out.
void scale_(const std::vector<at::Tensor>& grads, const at::Tensor& coefficient);

/// torch.nn.utils.clip_grad_value_ on unscaled gradients, in place: to [-clip_value, clip_value].
void clip_grad_value_(const std::vector<at::Tensor>& grads, double clip_value);

}  // namespace ampctl::optim
