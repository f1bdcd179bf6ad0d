#include <algorithm>
#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/param_update_kernel.h"
#include "kernels/param_update_ops.h"

namespace ampctl::kernels {
namespace {

bool are_float32(const std::vector<at::Tensor>& params) {
  return std::all_of(params.begin(), params.end(),
                     [](const at::Tensor& param) { return param.scalar_type() == at::kFloat; });
}

const float* pointer(const at::Tensor& scalar) {
  return scalar.defined() ? scalar.const_data_ptr<float>() : nullptr;
}

CopyType copy_type(const at::Tensor& copy) {
  if (!copy.defined()) return CopyType::none;
  return copy.scalar_type() == at::kHalf ? CopyType::float16 : CopyType::bfloat16;
}

UpdateTensor entry(const UpdateLists& lists, size_t i, int32_t first_block) {
  UpdateTensor result{};
  result.param = lists.params[i].mutable_data_ptr<float>();
  result.grad = lists.grads[i].const_data_ptr<float>();
  for (size_t kind = 0; kind < lists.states.size(); ++kind) {
    result.states[kind] = lists.states[kind][i].mutable_data_ptr<float>();
  }
  const at::Tensor& copy = lists.copies[i];
  result.copy = copy.defined() ? copy.mutable_data_ptr() : nullptr;
  result.copy_type = copy_type(copy);
  result.numel = lists.params[i].numel();
  result.weight_decay = lists.weight_decays[i];
  result.first_block = first_block;
  return result;
}

// Autograd notices by it when a value that it saved was overwritten.
void bump_versions(const std::vector<at::Tensor>& tensors) {
  for (const auto& tensor : tensors) {
    if (tensor.defined() && !tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
  }
}

/// Calls `launch(tensors, pointers, stream)` for as many parameters at a time as a launch takes.
template <class Launch>
void update(const UpdateLists& lists, const UpdateInputs& inputs, const Launch& launch) {
  const c10::cuda::CUDAGuard guard(lists.params[0].device());
  const auto stream = c10::cuda::getCurrentCUDAStream();
  const UpdatePointers pointers{pointer(inputs.lr), pointer(inputs.step), pointer(inputs.grad_scale),
                                pointer(inputs.found_inf)};
  UpdateTensors tensors{};
  const auto flush = [&] {
    if (tensors.blocks > 0) C10_CUDA_CHECK(launch(tensors, pointers, stream.stream()));
    tensors.count = 0;
    tensors.blocks = 0;
  };
  for (size_t i = 0; i < lists.params.size(); ++i) {
    if (lists.params[i].numel() == 0) continue;
    if (tensors.count == kUpdateTensors) flush();
    tensors.tensors[tensors.count++] = entry(lists, i, tensors.blocks);
    tensors.blocks += static_cast<int32_t>((lists.params[i].numel() + kUpdateChunk - 1) / kUpdateChunk);
  }
  flush();
  bump_versions(lists.params);
  for (const auto& states : lists.states) bump_versions(states);
  bump_versions(lists.copies);
}

void sgd_update_cuda(at::TensorList params, at::TensorList grads, at::TensorList states,
                     at::TensorList copies, at::ArrayRef<double> weight_decays, const at::Tensor& lr,
                     const at::Tensor& step, const std::optional<at::Tensor>& grad_scale,
                     const std::optional<at::Tensor>& found_inf, double momentum, double dampening,
                     bool nesterov) {
  const UpdateLists lists = update_lists(params, grads, states, copies, weight_decays);
  const UpdateInputs inputs = update_inputs(lr, step, grad_scale, found_inf);
  if (!are_float32(lists.params)) {
    sgd_update_reference_(lists, {momentum, dampening, nesterov}, inputs);
    return;
  }
  update(lists, inputs,
         [&](const UpdateTensors& tensors, const UpdatePointers& pointers, cudaStream_t stream) {
           return launch_sgd_update(tensors, {momentum, dampening, nesterov}, pointers, stream);
         });
}

void adam_update_cuda(at::TensorList params, at::TensorList grads, at::TensorList states,
                      at::TensorList copies, at::ArrayRef<double> weight_decays, const at::Tensor& lr,
                      const at::Tensor& step, const std::optional<at::Tensor>& grad_scale,
                      const std::optional<at::Tensor>& found_inf, double beta1, double beta2, double eps,
                      bool amsgrad, bool decoupled_weight_decay) {
  const UpdateLists lists = update_lists(params, grads, states, copies, weight_decays);
  const UpdateInputs inputs = update_inputs(lr, step, grad_scale, found_inf);
  if (!are_float32(lists.params)) {
    adam_update_reference_(lists, {beta1, beta2, eps, amsgrad, decoupled_weight_decay}, inputs);
    return;
  }
  update(lists, inputs,
         [&](const UpdateTensors& tensors, const UpdatePointers& pointers, cudaStream_t stream) {
           return launch_adam_update(tensors, {beta1, beta2, eps, decoupled_weight_decay}, amsgrad, pointers,
                                     stream);
         });
}

}  // namespace

TORCH_LIBRARY_IMPL(ampctl, CUDA, library) {
  library.impl("sgd_update_", &sgd_update_cuda);
  library.impl("adam_update_", &adam_update_cuda);
}

}  // namespace ampctl::kernels
