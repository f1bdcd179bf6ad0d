#include "kernels/batch_norm_pair.h"

#include <tuple>
#include <utility>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "base/error.h"
#include "kernels/batch_norm_pair_passes.h"
#include "kernels/maybe_tensor.h"

namespace ampctl::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

using ForwardPass = OfPairSchema<&batch_norm_pair_forward_reference>;
using BackwardPass = OfPairBackwardSchema<&batch_norm_pair_backward_composition>;

BatchNormPairPassed call_forward(const at::Tensor& first, const BatchNormInputs& first_inputs,
                                 const at::Tensor& second, const BatchNormInputs& second_inputs) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ampctl::batch_norm_pair_forward", "")
                             .typed<ForwardPass::Type>();
  return std::apply(
      [](const auto&... arguments) { return op.call(arguments...); },
      std::tuple_cat(batch_norm_schema(first, first_inputs), batch_norm_schema(second, second_inputs)));
}

BatchNormPairGradients call_backward(const at::Tensor& grad_output, const at::Tensor& grad_output_second,
                                     const BatchNormPairSaved& saved, const c10::IValue& first_slots,
                                     const c10::IValue& second_slots) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ampctl::batch_norm_pair_backward", "")
                             .typed<BackwardPass::Type>();
  const auto& [first, second] = saved;
  auto of_first = BatchNormParameterGradients::in_slots(first_slots, first.weight, first.bias);
  auto of_second = BatchNormParameterGradients::in_slots(second_slots, second.weight, second.bias);
  auto [grad_first, grad_second] = op.call(
      maybe(grad_output), maybe(grad_output_second), first.positive, first.input, first.weight, first.bias,
      first.mean, first.invstd, second.input, second.weight, second.bias, second.mean, second.invstd,
      maybe(first.tickets), of_first.weight, of_first.bias, of_second.weight, of_second.bias);
  return {std::move(grad_first),  std::move(of_first.weight),  std::move(of_first.bias),
          std::move(grad_second), std::move(of_second.weight), std::move(of_second.bias)};
}

struct BatchNormPair : torch::autograd::Function<BatchNormPair> {
  static variable_list forward(AutogradContext* context, const at::Tensor& first,
                               const at::Tensor& first_weight, const at::Tensor& first_bias,
                               const at::Tensor& second, const at::Tensor& second_weight,
                               const at::Tensor& second_bias, const BatchNormInputs& first_inputs,
                               const BatchNormInputs& second_inputs, int64_t readers) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto [output, positive, first_mean, first_invstd, second_mean, second_invstd] =
        call_forward(first, first_inputs, second, second_inputs);
    context->save_for_backward({first, positive, first_weight, first_bias, first_mean, first_invstd,
                                first_inputs.tickets, second, second_weight, second_bias, second_mean,
                                second_invstd});
    context->saved_data["first_slots"] = gradient_slots(first_inputs);
    context->saved_data["second_slots"] = gradient_slots(second_inputs);
    context->set_materialize_grads(false);
    return for_readers(output, readers);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list kept = context->get_saved_variables();
    const BatchNormPairSaved saved{
        {kept[0], kept[1], kept[2], kept[3], kept[4], kept[5], kept[6], /*relu=*/true},
        {kept[7], {}, kept[8], kept[9], kept[10], kept[11], {}, /*relu=*/false}};
    const at::Tensor other = grads.size() > 1 ? grads[1] : at::Tensor();
    if (!grads[0].defined() && !other.defined()) return variable_list(kForwardArguments);
    // Gradients are recorded here only for derivatives of a higher order, which the stock operators have.
    auto [grad_first, grad_first_weight, grad_first_bias, grad_second, grad_second_weight, grad_second_bias] =
        at::GradMode::is_enabled() ? batch_norm_pair_backward_reference(grads[0], other, saved)
                                   : call_backward(grads[0], other, saved, context->saved_data["first_slots"],
                                                   context->saved_data["second_slots"]);
    return {grad_first,
            grad_first_weight,
            grad_first_bias,
            grad_second,
            grad_second_weight,
            grad_second_bias,
            {},
            {},
            {}};
  }

  static constexpr size_t kForwardArguments = 9;
};

void check(const at::Tensor& first, const at::Tensor& second, int64_t readers) {
  if (first.dim() != 4 || second.sizes() != first.sizes()) {
    throw usage_error(c10::str("batch_norm_pair takes two inputs of one shape (N, C, H, W), but found ",
                               first.sizes(), " and ", second.sizes()));
  }
  if (readers < 1 || readers > 2) {
    throw usage_error(c10::str("batch_norm_pair has 1 or 2 readers, but found ", readers));
  }
}

std::vector<at::Tensor> fused_or_stock(const at::Tensor& first, const BatchNormInputs& first_inputs,
                                       const at::Tensor& second, const BatchNormInputs& second_inputs,
                                       int64_t readers) {
  check(first, second, readers);
  if (has_batch_norm_pair_kernel(first, first_inputs, second, second_inputs)) {
    return batch_norm_pair_fused(first, first_inputs, second, second_inputs, readers);
  }
  const at::Tensor residual = batch_norm_act(second, second_inputs, /*relu=*/false);
  auto [output, other] = batch_norm_add_relu(first, residual, first_inputs);
  std::vector<at::Tensor> outputs{std::move(output)};
  if (readers > 1) outputs.push_back(std::move(other));
  return outputs;
}

using Composite = OfPairSchema<&fused_or_stock, int64_t>;

}  // namespace

// Added in float64: rounded once.
BatchNormPairPassed batch_norm_pair_forward_reference(const at::Tensor& first,
                                                      const BatchNormInputs& first_inputs,
                                                      const at::Tensor& second,
                                                      const BatchNormInputs& second_inputs) {
  auto [residual, second_mean, second_invstd, none] =
      batch_norm_act_forward_reference(in_float64(second), {}, second_inputs, /*relu=*/false);
  auto [output, first_mean, first_invstd, positive] =
      batch_norm_act_forward_reference(first, residual, first_inputs, /*relu=*/true);
  return {std::move(output),       std::move(positive),    std::move(first_mean),
          std::move(first_invstd), std::move(second_mean), std::move(second_invstd)};
}

BatchNormPairGradients batch_norm_pair_backward_reference(const at::Tensor& grad_output,
                                                          const at::Tensor& grad_output_second,
                                                          const BatchNormPairSaved& saved) {
  auto [grad_first, passed, grad_first_weight, grad_first_bias] =
      batch_norm_act_backward_reference(grad_output, grad_output_second, saved.first);
  auto [grad_second, grad_second_weight, grad_second_bias] = batch_norm_backward_reference(
      in_float64(passed), saved.second.input, saved.second.weight, saved.second.mean, saved.second.invstd);
  return {std::move(grad_first),  std::move(grad_first_weight),  std::move(grad_first_bias),
          std::move(grad_second), std::move(grad_second_weight), std::move(grad_second_bias)};
}

BatchNormPairInputGradients batch_norm_pair_backward_composition(
    const at::Tensor& grad_output, const at::Tensor& grad_output_second, const BatchNormPairSaved& saved,
    const BatchNormPairParameterGradients& grads) {
  auto [grad_first, first_weight, first_bias, grad_second, second_weight, second_bias] =
      batch_norm_pair_backward_reference(grad_output, grad_output_second, saved);
  grads.first.fill(first_weight, first_bias);
  grads.second.fill(second_weight, second_bias);
  return {std::move(grad_first), std::move(grad_second)};
}

ForkedTensor batch_norm_pair_add_relu(const at::Tensor& first, const BatchNormInputs& first_inputs,
                                      const at::Tensor& second, const BatchNormInputs& second_inputs) {
  std::vector<at::Tensor> outputs = fused_or_stock(first, first_inputs, second, second_inputs, /*readers=*/2);
  return {std::move(outputs[0]), std::move(outputs[1])};
}

bool has_batch_norm_pair_kernel(const at::Tensor& first, const BatchNormInputs& first_inputs,
                                const at::Tensor& second, const BatchNormInputs& second_inputs) {
  return first.sizes() == second.sizes() && first.scalar_type() == second.scalar_type() &&
         first.device() == second.device() && has_batch_norm_kernel(first, first_inputs) &&
         has_batch_norm_kernel(second, second_inputs);
}

std::vector<at::Tensor> batch_norm_pair_fused(const at::Tensor& first, const BatchNormInputs& first_inputs,
                                              const at::Tensor& second, const BatchNormInputs& second_inputs,
                                              int64_t readers) {
  check(first, second, readers);
  return BatchNormPair::apply(first, first_inputs.weight, first_inputs.bias, second, second_inputs.weight,
                              second_inputs.bias, first_inputs, second_inputs, readers);
}

TORCH_LIBRARY_FRAGMENT(ampctl, library) {
  library.def(
      "batch_norm_pair(Tensor first, Tensor first_weight, Tensor first_bias, "
      "Tensor(a!)? first_running_mean, Tensor(b!)? first_running_var, "
      "Tensor(c!)? first_num_batches_tracked, Tensor(d!)? first_tickets, Tensor? first_sums, "
      "float first_momentum, float first_eps, Tensor second, Tensor second_weight, Tensor second_bias, "
      "Tensor(e!)? second_running_mean, Tensor(f!)? second_running_var, "
      "Tensor(g!)? second_num_batches_tracked, Tensor(h!)? second_tickets, Tensor? second_sums, "
      "float second_momentum, float second_eps, int readers) -> Tensor[]");
  library.def(
      "batch_norm_pair_forward(Tensor first, Tensor first_weight, Tensor first_bias, "
      "Tensor(a!)? first_running_mean, Tensor(b!)? first_running_var, "
      "Tensor(c!)? first_num_batches_tracked, Tensor(d!)? first_tickets, Tensor? first_sums, "
      "float first_momentum, float first_eps, Tensor second, Tensor second_weight, Tensor second_bias, "
      "Tensor(e!)? second_running_mean, Tensor(f!)? second_running_var, "
      "Tensor(g!)? second_num_batches_tracked, Tensor(h!)? second_tickets, Tensor? second_sums, "
      "float second_momentum, float second_eps) -> (Tensor output, Tensor positive, Tensor first_mean, "
      "Tensor first_invstd, "
      "Tensor second_mean, Tensor second_invstd)");
  library.def(
      "batch_norm_pair_backward(Tensor? grad_output, Tensor? grad_output_second, Tensor positive, "
      "Tensor first, Tensor first_weight, Tensor first_bias, Tensor first_mean, Tensor first_invstd, "
      "Tensor second, Tensor second_weight, Tensor second_bias, Tensor second_mean, Tensor second_invstd, "
      "Tensor(a!)? tickets, Tensor(b!) grad_first_weight, Tensor(c!) grad_first_bias, "
      "Tensor(d!) grad_second_weight, Tensor(e!) grad_second_bias) -> (Tensor grad_first, "
      "Tensor grad_second)");
}

TORCH_LIBRARY_IMPL(ampctl, CompositeImplicitAutograd, library) {
  library.impl("batch_norm_pair", &Composite::call);
}

TORCH_LIBRARY_IMPL(ampctl, CPU, library) {
  library.impl("batch_norm_pair_forward", &ForwardPass::call);
  library.impl("batch_norm_pair_backward", &BackwardPass::call);
}

#ifndef AMPCTL_WITH_CUDA
TORCH_LIBRARY_IMPL(ampctl, CUDA, library) {
  library.impl("batch_norm_pair_forward", &ForwardPass::call);
  library.impl("batch_norm_pair_backward", &BackwardPass::call);
}
#endif

}  // namespace ampctl::kernels
