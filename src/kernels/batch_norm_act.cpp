#include "kernels/batch_norm_act.h"

#include <utility>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/relu.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "base/error.h"
#include "kernels/batch_norm_act_passes.h"
#include "kernels/maybe_tensor.h"

namespace ampctl::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

using ForwardOp = BatchNormPassed(const at::Tensor&, const MaybeTensor&, const at::Tensor&, const at::Tensor&,
                                  const MaybeTensor&, const MaybeTensor&, const MaybeTensor&,
                                  const MaybeTensor&, const MaybeTensor&, double, double, bool);
using BackwardPassed = std::tuple<at::Tensor, at::Tensor>;
using BackwardOp = BackwardPassed(const MaybeTensor&, const MaybeTensor&, const at::Tensor&,
                                  const MaybeTensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                  const at::Tensor&, const MaybeTensor&, bool, const at::Tensor&,
                                  const at::Tensor&);

BatchNormPassed call_forward(const at::Tensor& input, const at::Tensor& residual,
                             const BatchNormInputs& inputs, bool relu) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ampctl::batch_norm_act_forward", "").typed<ForwardOp>();
  return op.call(input, maybe(residual), inputs.weight, inputs.bias, maybe(inputs.running_mean),
                 maybe(inputs.running_var), maybe(inputs.num_batches_tracked), maybe(inputs.tickets),
                 maybe(inputs.sums), inputs.momentum, inputs.eps, relu);
}

BatchNormGradients call_backward(const at::Tensor& grad_output, const at::Tensor& grad_second,
                                 const BatchNormSaved& saved, const c10::IValue& slots) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ampctl::batch_norm_act_backward", "")
                             .typed<BackwardOp>();
  auto grads = BatchNormParameterGradients::in_slots(slots, saved.weight, saved.bias);
  auto [grad_input, grad_residual] = op.call(
      maybe(grad_output), maybe(grad_second), saved.input, maybe(saved.positive), saved.weight, saved.bias,
      saved.mean, saved.invstd, maybe(saved.tickets), saved.relu, grads.weight, grads.bias);
  return {std::move(grad_input), std::move(grad_residual), std::move(grads.weight), std::move(grads.bias)};
}

struct BatchNormAct : torch::autograd::Function<BatchNormAct> {
  static variable_list forward(AutogradContext* context, const at::Tensor& input, const MaybeTensor& residual,
                               const at::Tensor& weight, const at::Tensor& bias,
                               const BatchNormInputs& inputs, bool relu, int64_t readers) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto [output, mean, invstd, positive] =
        call_forward(input, residual.value_or(at::Tensor()), inputs, relu);
    context->save_for_backward({input, positive, weight, bias, mean, invstd, inputs.tickets});
    context->saved_data["relu"] = relu;
    context->saved_data["adds"] = residual.has_value();
    context->saved_data["slots"] = gradient_slots(inputs);
    context->set_materialize_grads(false);
    return for_readers(output, readers);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list kept = context->get_saved_variables();
    const BatchNormSaved saved{kept[0], kept[1], kept[2], kept[3],
                               kept[4], kept[5], kept[6], context->saved_data["relu"].toBool()};
    const at::Tensor second = grads.size() > 1 ? grads[1] : at::Tensor();
    if (!grads[0].defined() && !second.defined()) return variable_list(kForwardArguments);
    // Gradients are recorded here only for derivatives of a higher order, which the stock operators have.
    auto [grad_input, grad_residual, grad_weight, grad_bias] =
        at::GradMode::is_enabled() ? batch_norm_act_backward_reference(grads[0], second, saved)
                                   : call_backward(grads[0], second, saved, context->saved_data["slots"]);
    if (!context->saved_data["adds"].toBool()) grad_residual = at::Tensor();
    return {grad_input, grad_residual, grad_weight, grad_bias, {}, {}, {}};
  }

  static constexpr size_t kForwardArguments = 7;
};

/// What PyTorch has, for a forward pass of one or two readers.
std::vector<at::Tensor> stock(const at::Tensor& input, const at::Tensor& residual,
                              const BatchNormInputs& inputs, bool relu, int64_t readers) {
  if (inputs.num_batches_tracked.defined()) inputs.num_batches_tracked.add_(1);
  at::Tensor output =
      at::batch_norm(input, inputs.weight, inputs.bias, inputs.running_mean, inputs.running_var,
                     /*training=*/true, inputs.momentum, inputs.eps, at::globalContext().userEnabledCuDNN());
  if (residual.defined()) output = output.add_(residual);
  if (relu) output = output.relu_();
  return std::vector<at::Tensor>(static_cast<size_t>(readers), output);
}

void check(const at::Tensor& input, const at::Tensor& residual, bool relu, int64_t readers) {
  if (input.dim() != 4) {
    throw usage_error(c10::str("batch_norm_act takes images (N, C, H, W), but found ", input.sizes()));
  }
  if (residual.defined() && residual.sizes() != input.sizes()) {
    throw usage_error(c10::str("batch_norm_act adds tensors of one shape, but found ", input.sizes(), " and ",
                               residual.sizes()));
  }
  if (residual.defined() && !relu) {
    throw usage_error("batch_norm_act adds before ReLU: with a residual, relu has to be true");
  }
  if (readers < 1 || readers > 2) {
    throw usage_error(c10::str("batch_norm_act has 1 or 2 readers, but found ", readers));
  }
}

std::vector<at::Tensor> fused_or_stock(const at::Tensor& input, const at::Tensor& residual,
                                       const BatchNormInputs& inputs, bool relu, int64_t readers) {
  check(input, residual, relu, readers);
  const bool has_kernel = has_batch_norm_kernel(input, inputs) &&
                          (!residual.defined() || residual.scalar_type() == input.scalar_type());
  return has_kernel ? batch_norm_act_fused(input, residual, inputs, relu, readers)
                    : stock(input, residual, inputs, relu, readers);
}

std::vector<at::Tensor> composite(const at::Tensor& input, const MaybeTensor& residual,
                                  const at::Tensor& weight, const at::Tensor& bias,
                                  const MaybeTensor& running_mean, const MaybeTensor& running_var,
                                  const MaybeTensor& num_batches_tracked, const MaybeTensor& tickets,
                                  const MaybeTensor& sums, double momentum, double eps, bool relu,
                                  int64_t readers) {
  return fused_or_stock(input, residual.value_or(at::Tensor()),
                        batch_norm_inputs(weight, bias, running_mean, running_var, num_batches_tracked,
                                          tickets, sums, momentum, eps),
                        relu, readers);
}

BatchNormPassed forward_composition(const at::Tensor& input, const MaybeTensor& residual,
                                    const at::Tensor& weight, const at::Tensor& bias,
                                    const MaybeTensor& running_mean, const MaybeTensor& running_var,
                                    const MaybeTensor& num_batches_tracked, const MaybeTensor& tickets,
                                    const MaybeTensor& sums, double momentum, double eps, bool relu) {
  return batch_norm_act_forward_reference(
      input, residual.value_or(at::Tensor()),
      batch_norm_inputs(weight, bias, running_mean, running_var, num_batches_tracked, tickets, sums, momentum,
                        eps),
      relu);
}

BackwardPassed backward_composition(const MaybeTensor& grad_output, const MaybeTensor& grad_second,
                                    const at::Tensor& input, const MaybeTensor& positive,
                                    const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& mean,
                                    const at::Tensor& invstd, const MaybeTensor& tickets, bool relu,
                                    const at::Tensor& grad_weight, const at::Tensor& grad_bias) {
  const at::Tensor none;
  return batch_norm_act_backward_composition(
      grad_output.value_or(none), grad_second.value_or(none),
      {input, positive.value_or(none), weight, bias, mean, invstd, tickets.value_or(none), relu},
      {grad_weight, grad_bias});
}

}  // namespace

BatchNormInputs batch_norm_inputs(const at::Tensor& weight, const at::Tensor& bias,
                                  const MaybeTensor& running_mean, const MaybeTensor& running_var,
                                  const MaybeTensor& num_batches_tracked, const MaybeTensor& tickets,
                                  const MaybeTensor& sums, double momentum, double eps) {
  const at::Tensor none;
  return {weight,
          bias,
          running_mean.value_or(none),
          running_var.value_or(none),
          num_batches_tracked.value_or(none),
          tickets.value_or(none),
          momentum,
          eps,
          sums.value_or(none)};
}

at::Tensor batch_norm_act(const at::Tensor& input, const BatchNormInputs& inputs, bool relu) {
  return fused_or_stock(input, {}, inputs, relu, /*readers=*/1)[0];
}

ForkedTensor batch_norm_add_relu(const at::Tensor& input, const at::Tensor& residual,
                                 const BatchNormInputs& inputs) {
  std::vector<at::Tensor> outputs = fused_or_stock(input, residual, inputs, /*relu=*/true, /*readers=*/2);
  return {std::move(outputs[0]), std::move(outputs[1])};
}

std::vector<at::Tensor> batch_norm_act_fused(const at::Tensor& input, const at::Tensor& residual,
                                             const BatchNormInputs& inputs, bool relu, int64_t readers) {
  check(input, residual, relu, readers);
  return BatchNormAct::apply(input, maybe(residual), inputs.weight, inputs.bias, inputs, relu, readers);
}

TORCH_LIBRARY_FRAGMENT(ampctl, library) {
  library.def(
      "batch_norm_act(Tensor input, Tensor? residual, Tensor weight, Tensor bias, Tensor(a!)? running_mean, "
      "Tensor(b!)? running_var, Tensor(c!)? num_batches_tracked, Tensor(d!)? tickets, Tensor? sums, "
      "float momentum, float eps, bool relu, int readers) -> Tensor[]");
  library.def(
      "batch_norm_act_forward(Tensor input, Tensor? residual, Tensor weight, Tensor bias, "
      "Tensor(a!)? running_mean, Tensor(b!)? running_var, Tensor(c!)? num_batches_tracked, "
      "Tensor(d!)? tickets, Tensor? sums, float momentum, float eps, bool relu) -> "
      "(Tensor output, Tensor mean, Tensor invstd, Tensor positive)");
  library.def(
      "batch_norm_act_backward(Tensor? grad_output, Tensor? grad_second, Tensor input, Tensor? positive, "
      "Tensor weight, Tensor bias, Tensor mean, Tensor invstd, Tensor(a!)? tickets, bool relu, "
      "Tensor(b!) grad_weight, Tensor(c!) grad_bias) -> (Tensor grad_input, Tensor grad_residual)");
}

TORCH_LIBRARY_IMPL(ampctl, CompositeImplicitAutograd, library) { library.impl("batch_norm_act", &composite); }

TORCH_LIBRARY_IMPL(ampctl, CPU, library) {
  library.impl("batch_norm_act_forward", &forward_composition);
  library.impl("batch_norm_act_backward", &backward_composition);
}

#ifndef AMPCTL_WITH_CUDA
bool has_batch_norm_kernel(const at::Tensor& /*input*/, const BatchNormInputs& /*inputs*/) { return false; }
at::Tensor batch_norm_tickets(at::Tensor& /*kept*/, const c10::Device& /*device*/) { return {}; }

TORCH_LIBRARY_IMPL(ampctl, CUDA, library) {
  library.impl("batch_norm_act_forward", &forward_composition);
  library.impl("batch_norm_act_backward", &backward_composition);
}
#endif

}  // namespace ampctl::kernels
