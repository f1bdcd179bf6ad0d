#include <array>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>

#include "kernels/batch_norm_act_passes.h"

namespace ampctl::kernels {
namespace {

constexpr int64_t kBits = 8;

/// (N H W C / 8) bytes to bool of the shape of `like`, which is contiguous in channels_last.
at::Tensor unpacked_bits(const at::Tensor& bytes, const at::Tensor& like) {
  const at::Tensor shifts = at::arange(kBits, bytes.options());
  const at::Tensor bits = bytes.unsqueeze(1).bitwise_right_shift(shifts).bitwise_and(1).to(at::kBool);
  return bits.view({like.size(0), like.size(2), like.size(3), like.size(1)}).permute({0, 3, 1, 2});
}

at::Tensor along_channels(const at::Tensor& values) { return values.view({1, -1, 1, 1}); }

at::Tensor where_positive(const BatchNormSaved& saved) {
  const at::NoGradGuard no_grad;
  if (!saved.positive.defined()) {
    const at::Tensor scale = saved.weight * saved.invstd;
    const at::Tensor shift = saved.bias - saved.mean * scale;
    const at::Tensor output =
        saved.input.to(scale.scalar_type()) * along_channels(scale) + along_channels(shift);
    return output.le(0).logical_not_();
  }
  return saved.positive.scalar_type() == at::kBool ? saved.positive
                                                   : unpacked_bits(saved.positive, saved.input);
}

at::Tensor pass_relu(const at::Tensor& grad, const BatchNormSaved& saved) {
  return saved.relu ? grad.masked_fill(where_positive(saved).logical_not(), 0) : grad;
}

}  // namespace

at::Tensor in_float32(const at::Tensor& tensor) {
  return at::isReducedFloatingType(tensor.scalar_type()) ? tensor.to(at::kFloat) : tensor;
}

at::Tensor summed(const at::Tensor& first, const at::Tensor& second) {
  if (first.defined() && second.defined()) return in_float32(first) + in_float32(second);
  return first.defined() ? first : second;
}

BatchNormPassed batch_norm_act_forward_reference(const at::Tensor& input, const at::Tensor& residual,
                                                 const BatchNormInputs& inputs, bool relu) {
  if (inputs.num_batches_tracked.defined()) inputs.num_batches_tracked.add_(1);
  auto [output, mean, invstd] = at::native_batch_norm(in_float32(input), inputs.weight, inputs.bias,
                                                      inputs.running_mean, inputs.running_var,
                                                      /*training=*/true, inputs.momentum, inputs.eps);
  if (residual.defined()) output = output.add(in_float32(residual));
  at::Tensor positive;
  if (relu) {
    output = output.relu();
    positive = output.le(0).logical_not_();
  }
  return {output.to(input.scalar_type()), std::move(mean), std::move(invstd), std::move(positive)};
}

BatchNormGradients batch_norm_act_backward_reference(const at::Tensor& grad_output,
                                                     const at::Tensor& grad_second,
                                                     const BatchNormSaved& saved) {
  const at::Tensor grad = pass_relu(in_float32(summed(grad_output, grad_second)), saved);
  // Both are given by the forward pass; eps is not looked at.
  constexpr double kUnusedEps = 0.0;
  constexpr std::array<bool, 3> kAll{true, true, true};
  auto [grad_input, grad_weight, grad_bias] = at::native_batch_norm_backward(
      grad, in_float32(saved.input), saved.weight, {}, {}, saved.mean, saved.invstd,
      /*train=*/true, kUnusedEps, kAll);
  const auto dtype = saved.input.scalar_type();
  return {grad_input.to(dtype), grad.to(dtype), std::move(grad_weight), std::move(grad_bias)};
}

}  // namespace ampctl::kernels
