#include <array>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/var_mean.h>

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

BatchNormParameterGradients BatchNormParameterGradients::in_slots(const c10::IValue& slots,
                                                                  const at::Tensor& weight,
                                                                  const at::Tensor& bias) {
  const auto& pair = slots.toTupleRef().elements();
  return {gradient_memory(gradient_slot(pair[0]), weight), gradient_memory(gradient_slot(pair[1]), bias)};
}

void BatchNormParameterGradients::fill(const at::Tensor& grad_weight, const at::Tensor& grad_bias) const {
  weight.copy_(grad_weight);
  bias.copy_(grad_bias);
}

c10::IValue gradient_slots(const BatchNormInputs& inputs) {
  return c10::ivalue::Tuple::create(to_capsule(inputs.weight_slot), to_capsule(inputs.bias_slot));
}

at::Tensor in_float64(const at::Tensor& tensor) { return tensor.to(at::kDouble); }

at::Tensor summed(const at::Tensor& first, const at::Tensor& second) {
  if (first.defined() && second.defined()) return in_float64(first) + in_float64(second);
  return in_float64(first.defined() ? first : second);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> batch_norm_backward_reference(const at::Tensor& grad,
                                                                             const at::Tensor& input,
                                                                             const at::Tensor& weight,
                                                                             const at::Tensor& mean,
                                                                             const at::Tensor& invstd) {
  constexpr double kUnusedEps = 0.0;  // mean and invstd are given
  constexpr std::array<bool, 3> kAll{true, true, true};
  const auto [grad_input, grad_weight, grad_bias] =
      at::native_batch_norm_backward(grad, in_float64(input), in_float64(weight), {}, {}, in_float64(mean),
                                     in_float64(invstd), /*train=*/true, kUnusedEps, kAll);
  return {grad_input.to(input.scalar_type()), grad_weight.to(weight.scalar_type()),
          grad_bias.to(weight.scalar_type())};
}

BatchNormPassed batch_norm_act_forward_reference(const at::Tensor& input, const at::Tensor& residual,
                                                 const BatchNormInputs& inputs, bool relu) {
  if (inputs.num_batches_tracked.defined()) inputs.num_batches_tracked.add_(1);
  const at::Tensor wide = in_float64(input);
  const auto [var, mean] = at::var_mean(wide, at::IntArrayRef{0, 2, 3}, /*unbiased=*/false);
  if (inputs.running_mean.defined()) {
    const auto count = static_cast<double>(wide.numel()) / static_cast<double>(wide.size(1));
    const auto follow = [&](const at::Tensor& running, const at::Tensor& value) {
      running.copy_(running.mul(1.0 - inputs.momentum) + value * inputs.momentum);
    };
    follow(inputs.running_mean, mean);
    follow(inputs.running_var, var * (count / (count - 1.0)));
  }
  const at::Tensor invstd = (var + inputs.eps).rsqrt();
  const at::Tensor scale = in_float64(inputs.weight) * invstd;
  const at::Tensor shift = in_float64(inputs.bias) - mean * scale;
  at::Tensor output = wide * along_channels(scale) + along_channels(shift);
  if (residual.defined()) output = output + in_float64(residual);
  at::Tensor positive;
  if (relu) {
    output = output.relu();
    positive = output.le(0).logical_not_();
  }
  const auto statistics = inputs.weight.scalar_type();
  return {output.to(input.scalar_type()), mean.to(statistics), invstd.to(statistics), std::move(positive)};
}

BatchNormGradients batch_norm_act_backward_reference(const at::Tensor& grad_output,
                                                     const at::Tensor& grad_second,
                                                     const BatchNormSaved& saved) {
  const at::Tensor grad = pass_relu(summed(grad_output, grad_second), saved);
  auto [grad_input, grad_weight, grad_bias] =
      batch_norm_backward_reference(grad, saved.input, saved.weight, saved.mean, saved.invstd);
  return {std::move(grad_input), grad.to(saved.input.scalar_type()), std::move(grad_weight),
          std::move(grad_bias)};
}

std::tuple<at::Tensor, at::Tensor> batch_norm_act_backward_composition(
    const at::Tensor& grad_output, const at::Tensor& grad_second, const BatchNormSaved& saved,
    const BatchNormParameterGradients& grads) {
  auto [grad_input, grad_residual, grad_weight, grad_bias] =
      batch_norm_act_backward_reference(grad_output, grad_second, saved);
  grads.fill(grad_weight, grad_bias);
  return {std::move(grad_input), std::move(grad_residual)};
}

}  // namespace ampctl::kernels
