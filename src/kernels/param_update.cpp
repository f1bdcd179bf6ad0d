#include "kernels/param_update.h"

#include <optional>
#include <string>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include "base/error.h"
#include "kernels/maybe_tensor.h"
#include "kernels/param_update_ops.h"

namespace ampctl::kernels {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::internal, "the update of the parameters: " + what);
}

bool has_layout_of(const at::Tensor& tensor, const at::Tensor& param) {
  return tensor.device() == param.device() && tensor.layout() == at::kStrided &&
         tensor.sizes() == param.sizes() && tensor.strides() == param.strides();
}

void check_layout(const at::Tensor& tensor, const at::Tensor& param, const char* what) {
  if (has_layout_of(tensor, param) && tensor.scalar_type() == param.scalar_type()) return;
  refuse(std::string(what) + " must have its parameter's type, device, shape and strides, found " +
         tensor.toString() + " beside " + param.toString());
}

void check_scalar(const at::Tensor& scalar, const at::Tensor& param, const char* name) {
  if (!scalar.defined()) return;
  if (scalar.dim() == 0 && scalar.scalar_type() == at::kFloat && scalar.device() == param.device()) return;
  refuse(std::string(name) + " must be a 0-dim float32 tensor on " + param.device().str() + ", found " +
         scalar.toString() + " with " + std::to_string(scalar.dim()) + " dimensions");
}

void check(const UpdateLists& lists, size_t state_kinds, const UpdateInputs& inputs) {
  const size_t count = lists.params.size();
  bool has_all = lists.grads.size() == count && lists.copies.size() == count &&
                 lists.weight_decays.size() == count && lists.states.size() == state_kinds;
  for (const auto& states : lists.states) has_all = has_all && states.size() == count;
  if (!has_all) refuse("lists differ in length");
  for (size_t i = 0; i < count; ++i) {
    const at::Tensor& param = lists.params[i];
    if (param.device() != lists.params[0].device()) refuse("parameters lie on several devices");
    if (!param.is_non_overlapping_and_dense()) refuse("a parameter has gaps in its memory");
    check_layout(lists.grads[i], param, "a gradient");
    for (const auto& states : lists.states) check_layout(states[i], param, "a state");
    const at::Tensor& copy = lists.copies[i];
    if (!copy.defined()) continue;
    if (!has_layout_of(copy, param) || !at::isReducedFloatingType(copy.scalar_type())) {
      refuse("a copy must be float16 or bfloat16 with its parameter's device, shape and strides, found " +
             copy.toString());
    }
  }
  if (!inputs.lr.defined() || !inputs.step.defined()) refuse("lr and step must be given");
  check_scalar(inputs.lr, lists.params[0], "lr");
  check_scalar(inputs.step, lists.params[0], "step");
  check_scalar(inputs.grad_scale, lists.params[0], "grad_scale");
  check_scalar(inputs.found_inf, lists.params[0], "found_inf");
}

// Kind by kind, as the operators take them.
std::vector<at::Tensor> flat(const std::vector<std::vector<at::Tensor>>& states) {
  std::vector<at::Tensor> result;
  for (const auto& kind : states) result.insert(result.end(), kind.begin(), kind.end());
  return result;
}

void sgd_composition(at::TensorList params, at::TensorList grads, at::TensorList states,
                     at::TensorList copies, at::ArrayRef<double> weight_decays, const at::Tensor& lr,
                     const at::Tensor& step, const std::optional<at::Tensor>& grad_scale,
                     const std::optional<at::Tensor>& found_inf, double momentum, double dampening,
                     bool nesterov) {
  sgd_update_reference_(update_lists(params, grads, states, copies, weight_decays),
                        {momentum, dampening, nesterov}, update_inputs(lr, step, grad_scale, found_inf));
}

void adam_composition(at::TensorList params, at::TensorList grads, at::TensorList states,
                      at::TensorList copies, at::ArrayRef<double> weight_decays, const at::Tensor& lr,
                      const at::Tensor& step, const std::optional<at::Tensor>& grad_scale,
                      const std::optional<at::Tensor>& found_inf, double beta1, double beta2, double eps,
                      bool amsgrad, bool decoupled_weight_decay) {
  adam_update_reference_(update_lists(params, grads, states, copies, weight_decays),
                         {beta1, beta2, eps, amsgrad, decoupled_weight_decay},
                         update_inputs(lr, step, grad_scale, found_inf));
}

}  // namespace

void sgd_update_(const UpdateLists& lists, const SgdOptions& options, const UpdateInputs& inputs) {
  if (lists.params.empty()) return;
  check(lists, options.momentum == 0.0 ? 0 : 1, inputs);
  const at::NoGradGuard no_grad;
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ampctl::sgd_update_", "").typed<SgdUpdateOp>();
  op.call(lists.params, lists.grads, flat(lists.states), lists.copies, lists.weight_decays, inputs.lr,
          inputs.step, maybe(inputs.grad_scale), maybe(inputs.found_inf), options.momentum, options.dampening,
          options.nesterov);
}

void adam_update_(const UpdateLists& lists, const AdamOptions& options, const UpdateInputs& inputs) {
  if (lists.params.empty()) return;
  check(lists, options.amsgrad ? 3 : 2, inputs);
  const at::NoGradGuard no_grad;
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ampctl::adam_update_", "").typed<AdamUpdateOp>();
  op.call(lists.params, lists.grads, flat(lists.states), lists.copies, lists.weight_decays, inputs.lr,
          inputs.step, maybe(inputs.grad_scale), maybe(inputs.found_inf), options.beta1, options.beta2,
          options.eps, options.amsgrad, options.decoupled_weight_decay);
}

TORCH_LIBRARY_FRAGMENT(ampctl, library) {
  library.def(
      "sgd_update_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] states, Tensor(c!)[] copies, "
      "float[] weight_decays, Tensor lr, Tensor step, Tensor? grad_scale, Tensor? found_inf, float momentum, "
      "float dampening, bool nesterov) -> ()");
  library.def(
      "adam_update_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] states, Tensor(c!)[] copies, "
      "float[] weight_decays, Tensor lr, Tensor step, Tensor? grad_scale, Tensor? found_inf, float beta1, "
      "float beta2, float eps, bool amsgrad, bool decoupled_weight_decay) -> ()");
}

TORCH_LIBRARY_IMPL(ampctl, CPU, library) {
  library.impl("sgd_update_", &sgd_composition);
  library.impl("adam_update_", &adam_composition);
}

#ifndef AMPCTL_WITH_CUDA
TORCH_LIBRARY_IMPL(ampctl, CUDA, library) {
  library.impl("sgd_update_", &sgd_composition);
  library.impl("adam_update_", &adam_composition);
}
#endif

}  // namespace ampctl::kernels
