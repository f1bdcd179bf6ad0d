#include "kernels/batch_norm_pool.h"

#include <array>
#include <optional>
#include <utility>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "base/error.h"
#include "kernels/batch_norm_act_passes.h"
#include "kernels/batch_norm_pool_passes.h"
#include "kernels/maybe_tensor.h"

namespace ampctl::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

using ForwardOp = BatchNormPooled(const at::Tensor&, const at::Tensor&, const at::Tensor&, const MaybeTensor&,
                                  const MaybeTensor&, const MaybeTensor&, const MaybeTensor&,
                                  const MaybeTensor&, double, double);
using BackwardOp = at::Tensor(const MaybeTensor&, const MaybeTensor&, const at::Tensor&, const at::Tensor&,
                              const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                              const MaybeTensor&, const at::Tensor&, const at::Tensor&);

constexpr int64_t kNoPosition = 255;
/// A position inside the image for every window.
constexpr int64_t kCenter = 4;

BatchNormPooled call_forward(const at::Tensor& input, const BatchNormInputs& inputs) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ampctl::batch_norm_relu_max_pool_forward", "")
                             .typed<ForwardOp>();
  return op.call(input, inputs.weight, inputs.bias, maybe(inputs.running_mean), maybe(inputs.running_var),
                 maybe(inputs.num_batches_tracked), maybe(inputs.tickets), maybe(inputs.sums),
                 inputs.momentum, inputs.eps);
}

BatchNormPoolGradients call_backward(const at::Tensor& grad_output, const at::Tensor& grad_second,
                                     const BatchNormPoolSaved& saved, const c10::IValue& slots) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ampctl::batch_norm_relu_max_pool_backward", "")
                             .typed<BackwardOp>();
  auto grads = BatchNormParameterGradients::in_slots(slots, saved.weight, saved.bias);
  at::Tensor grad_input =
      op.call(maybe(grad_output), maybe(grad_second), saved.input, saved.positions, saved.weight, saved.bias,
              saved.mean, saved.invstd, maybe(saved.tickets), grads.weight, grads.bias);
  return {std::move(grad_input), std::move(grads.weight), std::move(grads.bias)};
}

struct BatchNormPool : torch::autograd::Function<BatchNormPool> {
  static variable_list forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                               const at::Tensor& bias, const BatchNormInputs& inputs, int64_t readers) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto [output, positions, mean, invstd] = call_forward(input, inputs);
    context->save_for_backward({input, positions, weight, bias, mean, invstd, inputs.tickets});
    context->saved_data["slots"] = gradient_slots(inputs);
    context->set_materialize_grads(false);
    return for_readers(output, readers);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list kept = context->get_saved_variables();
    const BatchNormPoolSaved saved{kept[0], kept[1], kept[2], kept[3], kept[4], kept[5], kept[6]};
    const at::Tensor second = grads.size() > 1 ? grads[1] : at::Tensor();
    if (!grads[0].defined() && !second.defined()) return variable_list(kForwardArguments);
    // Gradients are recorded here only for derivatives of a higher order, which the stock operators have.
    auto [grad_input, grad_weight, grad_bias] =
        at::GradMode::is_enabled() ? batch_norm_pool_backward_reference(grads[0], second, saved)
                                   : call_backward(grads[0], second, saved, context->saved_data["slots"]);
    return {grad_input, grad_weight, grad_bias, {}, {}};
  }

  static constexpr size_t kForwardArguments = 5;
};

void check(const at::Tensor& input, int64_t readers) {
  if (input.dim() != 4) {
    throw usage_error(
        c10::str("batch_norm_relu_max_pool takes images (N, C, H, W), but found ", input.sizes()));
  }
  if (readers < 1 || readers > 2) {
    throw usage_error(c10::str("batch_norm_relu_max_pool has 1 or 2 readers, but found ", readers));
  }
}

std::vector<at::Tensor> fused_or_stock(const at::Tensor& input, const BatchNormInputs& inputs,
                                       int64_t readers) {
  check(input, readers);
  if (has_batch_norm_kernel(input, inputs)) return batch_norm_relu_max_pool_fused(input, inputs, readers);
  if (inputs.num_batches_tracked.defined()) inputs.num_batches_tracked.add_(1);
  at::Tensor normalised =
      at::batch_norm(input, inputs.weight, inputs.bias, inputs.running_mean, inputs.running_var,
                     /*training=*/true, inputs.momentum, inputs.eps, at::globalContext().userEnabledCuDNN());
  return std::vector<at::Tensor>(static_cast<size_t>(readers),
                                 max_pool2d(normalised.relu_(), kBatchNormPoolWindow));
}

std::vector<at::Tensor> composite(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                                  const MaybeTensor& running_mean, const MaybeTensor& running_var,
                                  const MaybeTensor& num_batches_tracked, const MaybeTensor& tickets,
                                  const MaybeTensor& sums, double momentum, double eps, int64_t readers) {
  return fused_or_stock(input,
                        batch_norm_inputs(weight, bias, running_mean, running_var, num_batches_tracked,
                                          tickets, sums, momentum, eps),
                        readers);
}

BatchNormPooled forward_composition(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                                    const MaybeTensor& running_mean, const MaybeTensor& running_var,
                                    const MaybeTensor& num_batches_tracked, const MaybeTensor& tickets,
                                    const MaybeTensor& sums, double momentum, double eps) {
  return batch_norm_pool_forward_reference(
      input, batch_norm_inputs(weight, bias, running_mean, running_var, num_batches_tracked, tickets, sums,
                               momentum, eps));
}

at::Tensor backward_composition(const MaybeTensor& grad_output, const MaybeTensor& grad_second,
                                const at::Tensor& input, const at::Tensor& positions,
                                const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& mean,
                                const at::Tensor& invstd, const MaybeTensor& /*tickets*/,
                                const at::Tensor& grad_weight, const at::Tensor& grad_bias) {
  const at::Tensor none;
  return batch_norm_pool_backward_composition(grad_output.value_or(none), grad_second.value_or(none),
                                              {input, positions, weight, bias, mean, invstd, {}},
                                              {grad_weight, grad_bias});
}

}  // namespace

// Maxima are sought in float64, like the operator before them.
BatchNormPooled batch_norm_pool_forward_reference(const at::Tensor& input, const BatchNormInputs& inputs) {
  auto [output, mean, invstd, positive] =
      batch_norm_act_forward_reference(in_float64(input), {}, inputs, /*relu=*/true);
  auto [pooled, positions] = max_pool2d_reference(output, kBatchNormPoolWindow);
  at::Tensor known = positions.masked_fill(pooled.le(0), kNoPosition);
  return {pooled.to(input.scalar_type()), std::move(known), std::move(mean), std::move(invstd)};
}

BatchNormPoolGradients batch_norm_pool_backward_reference(const at::Tensor& grad_output,
                                                          const at::Tensor& grad_second,
                                                          const BatchNormPoolSaved& saved) {
  const at::Tensor has_none = saved.positions.eq(kNoPosition);
  // Where there is no position any will do for nothing.
  const at::Tensor pooled_grad = summed(grad_output, grad_second).masked_fill(has_none, 0);
  const at::Tensor grad = max_pool2d_backward_reference(
      pooled_grad, saved.positions.masked_fill(has_none, kCenter), saved.input.sizes(), kBatchNormPoolWindow);
  return batch_norm_backward_reference(grad, saved.input, saved.weight, saved.mean, saved.invstd);
}

at::Tensor batch_norm_pool_backward_composition(const at::Tensor& grad_output, const at::Tensor& grad_second,
                                                const BatchNormPoolSaved& saved,
                                                const BatchNormParameterGradients& grads) {
  const auto [grad_input, grad_weight, grad_bias] =
      batch_norm_pool_backward_reference(grad_output, grad_second, saved);
  grads.fill(grad_weight, grad_bias);
  return grad_input;
}

ForkedTensor batch_norm_relu_max_pool(const at::Tensor& input, const BatchNormInputs& inputs) {
  std::vector<at::Tensor> outputs = fused_or_stock(input, inputs, /*readers=*/2);
  return {std::move(outputs[0]), std::move(outputs[1])};
}

std::vector<at::Tensor> batch_norm_relu_max_pool_fused(const at::Tensor& input, const BatchNormInputs& inputs,
                                                       int64_t readers) {
  check(input, readers);
  return BatchNormPool::apply(input, inputs.weight, inputs.bias, inputs, readers);
}

TORCH_LIBRARY_FRAGMENT(ampctl, library) {
  library.def(
      "batch_norm_relu_max_pool(Tensor input, Tensor weight, Tensor bias, Tensor(a!)? running_mean, "
      "Tensor(b!)? running_var, Tensor(c!)? num_batches_tracked, Tensor(d!)? tickets, Tensor? sums, "
      "float momentum, float eps, int readers) -> Tensor[]");
  library.def(
      "batch_norm_relu_max_pool_forward(Tensor input, Tensor weight, Tensor bias, Tensor(a!)? running_mean, "
      "Tensor(b!)? running_var, Tensor(c!)? num_batches_tracked, Tensor(d!)? tickets, Tensor? sums, "
      "float momentum, float eps) -> (Tensor output, Tensor positions, Tensor mean, Tensor invstd)");
  library.def(
      "batch_norm_relu_max_pool_backward(Tensor? grad_output, Tensor? grad_second, Tensor input, "
      "Tensor positions, Tensor weight, Tensor bias, Tensor mean, Tensor invstd, Tensor(a!)? tickets, "
      "Tensor(b!) grad_weight, Tensor(c!) grad_bias) -> Tensor grad_input");
}

TORCH_LIBRARY_IMPL(ampctl, CompositeImplicitAutograd, library) {
  library.impl("batch_norm_relu_max_pool", &composite);
}

TORCH_LIBRARY_IMPL(ampctl, CPU, library) {
  library.impl("batch_norm_relu_max_pool_forward", &forward_composition);
  library.impl("batch_norm_relu_max_pool_backward", &backward_composition);
}

#ifndef AMPCTL_WITH_CUDA
TORCH_LIBRARY_IMPL(ampctl, CUDA, library) {
  library.impl("batch_norm_relu_max_pool_forward", &forward_composition);
  library.impl("batch_norm_relu_max_pool_backward", &backward_composition);
}
#endif

}  // namespace ampctl::kernels
