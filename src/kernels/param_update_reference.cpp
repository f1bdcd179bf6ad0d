#include <map>
#include <optional>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/maximum.h>

#include "kernels/maybe_tensor.h"
#include "kernels/param_update.h"

namespace ampctl::kernels {
namespace {

// PyTorch's fused optimizers take parameters of one dtype and one weight decay a call.
std::vector<UpdateLists> groups_of_one_kind(const UpdateLists& lists) {
  std::map<std::pair<at::ScalarType, double>, UpdateLists> groups;
  for (size_t i = 0; i < lists.params.size(); ++i) {
    UpdateLists& group = groups[{lists.params[i].scalar_type(), lists.weight_decays[i]}];
    group.params.push_back(lists.params[i]);
    group.grads.push_back(lists.grads[i]);
    group.states.resize(lists.states.size());
    for (size_t kind = 0; kind < lists.states.size(); ++kind) {
      group.states[kind].push_back(lists.states[kind][i]);
    }
    group.weight_decays.push_back(lists.weight_decays[i]);
  }
  std::vector<UpdateLists> result;
  result.reserve(groups.size());
  for (auto& [kind, group] : groups) result.push_back(std::move(group));
  return result;
}

// In a skipped step parameters stand as they were, and so do their copies.
void write_copies(const UpdateLists& lists) {
  std::map<std::pair<at::ScalarType, at::ScalarType>,
           std::pair<std::vector<at::Tensor>, std::vector<at::Tensor>>>
      groups;
  for (size_t i = 0; i < lists.params.size(); ++i) {
    if (!lists.copies[i].defined()) continue;
    auto& [copies, params] = groups[{lists.copies[i].scalar_type(), lists.params[i].scalar_type()}];
    copies.push_back(lists.copies[i]);
    params.push_back(lists.params[i]);
  }
  for (const auto& [dtypes, group] : groups) at::_foreach_copy_(group.first, group.second);
}

at::Tensor skip_also_if(const at::Tensor& condition, const at::Tensor& found_inf) {
  const at::Tensor skip = condition.to(at::kFloat);
  return found_inf.defined() ? at::maximum(skip, found_inf) : skip;
}

void fused_sgd(const UpdateLists& group, const SgdOptions& options, const UpdateInputs& inputs,
               bool is_first_step, const at::Tensor& skip) {
  const at::TensorList buffers = group.states.empty() ? at::TensorList() : at::TensorList(group.states[0]);
  at::_fused_sgd_(group.params, group.grads, buffers, group.weight_decays[0], options.momentum, inputs.lr,
                  options.dampening, options.nesterov, /*maximize=*/false, is_first_step,
                  maybe(inputs.grad_scale), maybe(skip));
}

}  // namespace

void sgd_update_reference_(const UpdateLists& lists, const SgdOptions& options, const UpdateInputs& inputs) {
  const at::NoGradGuard no_grad;
  const bool damped = options.momentum != 0.0 && options.dampening != 0.0;
  at::Tensor skip_first;
  at::Tensor skip_later = inputs.found_inf;
  if (damped) {
    // The host does not know which update is the first: both forms are enqueued, and the device skips one.
    // Without dampening a buffer of zeros gives the first step's value by itself.
    skip_first = skip_also_if(inputs.step.ne(1.0), inputs.found_inf);
    skip_later = skip_also_if(inputs.step.eq(1.0), inputs.found_inf);
  }
  for (const auto& group : groups_of_one_kind(lists)) {
    if (damped) fused_sgd(group, options, inputs, /*is_first_step=*/true, skip_first);
    fused_sgd(group, options, inputs, /*is_first_step=*/false, skip_later);
  }
  write_copies(lists);
}

void adam_update_reference_(const UpdateLists& lists, const AdamOptions& options,
                            const UpdateInputs& inputs) {
  const at::NoGradGuard no_grad;
  for (const auto& group : groups_of_one_kind(lists)) {
    // Kernels only read step counts, so that one tensor serves every parameter.
    const std::vector<at::Tensor> steps(group.params.size(), inputs.step);
    const auto max_exp_avg_sqs = options.amsgrad ? at::TensorList(group.states[2]) : at::TensorList();
    const auto update = [&](auto kernel) {
      kernel(group.params, group.grads, group.states[0], group.states[1], max_exp_avg_sqs, steps, inputs.lr,
             options.beta1, options.beta2, group.weight_decays[0], options.eps, options.amsgrad,
             /*maximize=*/false, maybe(inputs.grad_scale), maybe(inputs.found_inf));
    };
    if (options.decoupled_weight_decay) {
      update([](const auto&... arguments) { at::_fused_adamw_(arguments...); });
    } else {
      update([](const auto&... arguments) { at::_fused_adam_(arguments...); });
    }
  }
  write_copies(lists);
}

}  // namespace ampctl::kernels
