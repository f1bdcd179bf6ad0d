#include "optim/clip.h"

#include <map>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_mul.h>

#include "kernels/grad_stats.h"
#include "kernels/step_control_places.h"

namespace ampctl::optim {
namespace {

// Multi-tensor operators are fast for lists of one dtype only.
std::map<at::ScalarType, std::vector<at::Tensor>> by_dtype(const std::vector<at::Tensor>& grads) {
  std::map<at::ScalarType, std::vector<at::Tensor>> groups;
  for (const auto& grad : grads) {
    if (grad.defined()) groups[grad.scalar_type()].push_back(grad);
  }
  return groups;
}

}  // namespace

at::Tensor grad_norm(const std::vector<at::Tensor>& grads, const at::Tensor& grad_scale) {
  at::Tensor norm = kernels::grad_stats(grads).norm;
  if (grad_scale.defined()) norm = norm.div(grad_scale);
  return norm.to(at::kFloat);
}

at::Tensor clip_coefficient(const at::Tensor& norm, double max_norm) {
  return norm.add(kernels::kClipEpsilon).reciprocal().mul(max_norm).clamp_max(1.0).to(at::kFloat);
}

void scale_(const std::vector<at::Tensor>& grads, const at::Tensor& coefficient) {
  const at::NoGradGuard no_grad;
  for (const auto& [dtype, group] : by_dtype(grads)) at::_foreach_mul_(group, coefficient.to(dtype));
}

void clip_grad_value_(const std::vector<at::Tensor>& grads, double clip_value) {
  const at::NoGradGuard no_grad;
  for (const auto& [dtype, group] : by_dtype(grads)) {
    at::_foreach_clamp_min_(group, -clip_value);
    at::_foreach_clamp_max_(group, clip_value);
  }
}

}  // namespace ampctl::optim
