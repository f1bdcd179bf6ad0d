#include <tuple>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/batch_norm_act_passes.h"
#include "kernels/batch_norm_cuda.h"
#include "kernels/maybe_tensor.h"

namespace ampctl::kernels {
namespace {

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

BatchNormForm form_of(bool adds, bool relu) {
  if (adds) return BatchNormForm::add_relu;
  return relu ? BatchNormForm::relu : BatchNormForm::plain;
}

BatchNormPassed forward_cuda(const at::Tensor& input, const MaybeTensor& residual, const at::Tensor& weight,
                             const at::Tensor& bias, const MaybeTensor& running_mean,
                             const MaybeTensor& running_var, const MaybeTensor& num_batches_tracked,
                             const MaybeTensor& tickets, const MaybeTensor& sums, double momentum, double eps,
                             bool relu) {
  const BatchNormInputs inputs = batch_norm_inputs(weight, bias, running_mean, running_var,
                                                   num_batches_tracked, tickets, sums, momentum, eps);
  const at::Tensor added = residual.value_or(at::Tensor());
  const bool has_kernel = has_batch_norm_kernel(input, inputs) &&
                          (!added.defined() || added.scalar_type() == input.scalar_type());
  if (!has_kernel) return batch_norm_act_forward_reference(input, added, inputs, relu);

  const c10::cuda::CUDAGuard guard(input.device());
  const BatchNormShape shape = batch_norm_shape(input);
  auto [mean, invstd] = batch_norm_statistics(input, shape, inputs);
  at::Tensor output = at::empty_like(input, input.options(), kChannelsLast);
  at::Tensor positive;
  BatchNormApply tensors{input.const_data_ptr(), nullptr, output.mutable_data_ptr(), nullptr};
  at::Tensor readable;
  if (added.defined()) {
    readable = batch_norm_readable(added);
    positive = at::empty({input.numel() / kBatchNormPack}, input.options().dtype(at::kByte));
    tensors.residual = readable.const_data_ptr();
    tensors.positive = positive.mutable_data_ptr<uint8_t>();
  }
  const BatchNormChannels channels = batch_norm_channels({{}, {}, weight, bias, mean, invstd, {}, relu});
  C10_CUDA_CHECK(launch_batch_norm_apply(shape, form_of(added.defined(), relu), tensors, channels,
                                         c10::cuda::getCurrentCUDAStream()));
  return {std::move(output), std::move(mean), std::move(invstd), std::move(positive)};
}

std::tuple<at::Tensor, at::Tensor> backward_cuda(const MaybeTensor& grad_output,
                                                 const MaybeTensor& grad_second, const at::Tensor& input,
                                                 const MaybeTensor& positive, const at::Tensor& weight,
                                                 const at::Tensor& bias, const at::Tensor& mean,
                                                 const at::Tensor& invstd, const MaybeTensor& tickets,
                                                 bool relu, const at::Tensor& grad_weight,
                                                 const at::Tensor& grad_bias) {
  const at::Tensor none;
  const BatchNormSaved saved{input,  positive.value_or(none), weight, bias, mean,
                             invstd, tickets.value_or(none),  relu};
  const at::Tensor first = grad_output.has_value() ? *grad_output : grad_second.value_or(none);
  const at::Tensor second = grad_output.has_value() ? grad_second.value_or(none) : none;
  // Masks of bool come from stock operators; a single gradient of another form is not worth kernels.
  const bool is_stock = saved.positive.defined() && saved.positive.scalar_type() == at::kBool;
  const bool adds = saved.positive.defined() && !is_stock;
  const bool has_kernel = !is_stock && saved.tickets.defined() && is_batch_norm_readable(input) &&
                          mean.scalar_type() == at::kFloat && (adds || !second.defined());
  if (!has_kernel) {
    return batch_norm_act_backward_composition(first, second, saved, {grad_weight, grad_bias});
  }

  const c10::cuda::CUDAGuard guard(input.device());
  const BatchNormShape shape = batch_norm_shape(input);
  const at::Tensor dy = batch_norm_readable(first.to(input.scalar_type()));
  const at::Tensor dy_second =
      second.defined() ? batch_norm_readable(second.to(input.scalar_type())) : at::Tensor();
  at::Tensor grad_input = at::empty_like(input, input.options(), kChannelsLast);
  at::Tensor grad_residual = adds ? at::empty_like(grad_input) : at::Tensor();
  const BatchNormBackward tensors{dy.const_data_ptr(),
                                  dy_second.defined() ? dy_second.const_data_ptr() : nullptr,
                                  input.const_data_ptr(),
                                  adds ? saved.positive.const_data_ptr<uint8_t>() : nullptr,
                                  adds ? grad_residual.mutable_data_ptr() : nullptr,
                                  grad_input.mutable_data_ptr(),
                                  grad_weight.mutable_data_ptr<float>(),
                                  grad_bias.mutable_data_ptr<float>()};
  const BatchNormWorkspace workspace(shape, saved.tickets, BatchNormPass::backward);
  C10_CUDA_CHECK(launch_batch_norm_backward(shape, form_of(adds, relu), tensors, batch_norm_channels(saved),
                                            workspace.scratch(), c10::cuda::getCurrentCUDAStream()));
  return {std::move(grad_input), std::move(grad_residual)};
}

}  // namespace

TORCH_LIBRARY_IMPL(ampctl, CUDA, library) {
  library.impl("batch_norm_act_forward", &forward_cuda);
  library.impl("batch_norm_act_backward", &backward_cuda);
}

}  // namespace ampctl::kernels
