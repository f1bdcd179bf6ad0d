#include <cstdint>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/batch_norm_cuda.h"
#include "kernels/batch_norm_pair_kernel.h"
#include "kernels/batch_norm_pair_passes.h"

namespace ampctl::kernels {
namespace {

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

BatchNormBranch branch(const BatchNormSaved& saved) {
  return {saved.input.const_data_ptr(), batch_norm_channels(saved)};
}

BatchNormPairPassed forward_cuda(const at::Tensor& first, const BatchNormInputs& first_inputs,
                                 const at::Tensor& second, const BatchNormInputs& second_inputs) {
  if (!has_batch_norm_pair_kernel(first, first_inputs, second, second_inputs)) {
    return batch_norm_pair_forward_reference(first, first_inputs, second, second_inputs);
  }
  const c10::cuda::CUDAGuard guard(first.device());
  const BatchNormShape shape = batch_norm_shape(first);
  auto [first_mean, first_invstd] = batch_norm_statistics(first, shape, first_inputs);
  auto [second_mean, second_invstd] = batch_norm_statistics(second, shape, second_inputs);
  at::Tensor output = at::empty_like(first, first.options(), kChannelsLast);
  at::Tensor positive = at::empty({first.numel() / kBatchNormPack}, first.options().dtype(at::kByte));
  C10_CUDA_CHECK(launch_batch_norm_pair_apply(
      shape, branch({first, {}, first_inputs.weight, first_inputs.bias, first_mean, first_invstd, {}}),
      branch({second, {}, second_inputs.weight, second_inputs.bias, second_mean, second_invstd, {}}),
      output.mutable_data_ptr(), positive.mutable_data_ptr<uint8_t>(), c10::cuda::getCurrentCUDAStream()));
  return {std::move(output),       std::move(positive),    std::move(first_mean),
          std::move(first_invstd), std::move(second_mean), std::move(second_invstd)};
}

BatchNormBranchGradients pointers(const at::Tensor& grad_input, const BatchNormParameterGradients& grads) {
  return {grad_input.mutable_data_ptr(), grads.weight.mutable_data_ptr<float>(),
          grads.bias.mutable_data_ptr<float>()};
}

bool is_readable(const BatchNormSaved& saved) {
  return is_batch_norm_readable(saved.input) && saved.mean.scalar_type() == at::kFloat;
}

BatchNormPairInputGradients backward_cuda(const at::Tensor& grad_output, const at::Tensor& grad_output_second,
                                          const BatchNormPairSaved& saved,
                                          const BatchNormPairParameterGradients& grads) {
  const BatchNormSaved& first = saved.first;
  const BatchNormSaved& second = saved.second;
  // Masks of bool come from stock operators.
  const bool has_kernel = first.positive.scalar_type() == at::kByte && first.tickets.defined() &&
                          is_readable(first) && is_readable(second);
  if (!has_kernel) {
    return batch_norm_pair_backward_composition(grad_output, grad_output_second, saved, grads);
  }

  const c10::cuda::CUDAGuard guard(first.input.device());
  const BatchNormShape shape = batch_norm_shape(first.input);
  const auto readable = [&](const at::Tensor& grad) {
    return grad.defined() ? batch_norm_readable(grad.to(first.input.scalar_type())) : grad;
  };
  const bool has_first = grad_output.defined();
  const at::Tensor dy = readable(has_first ? grad_output : grad_output_second);
  const at::Tensor dy_second = readable(has_first ? grad_output_second : at::Tensor());
  at::Tensor grad_first = at::empty_like(first.input, first.input.options(), kChannelsLast);
  at::Tensor grad_second = at::empty_like(second.input, second.input.options(), kChannelsLast);
  const BatchNormPairBackward tensors{dy.const_data_ptr(),
                                      dy_second.defined() ? dy_second.const_data_ptr() : nullptr,
                                      first.positive.const_data_ptr<uint8_t>(),
                                      branch(first),
                                      branch(second),
                                      pointers(grad_first, grads.first),
                                      pointers(grad_second, grads.second)};
  const BatchNormWorkspace workspace(shape, first.tickets, BatchNormPass::backward, kBatchNormPairSums);
  C10_CUDA_CHECK(launch_batch_norm_pair_backward(shape, tensors, workspace.scratch(),
                                                 c10::cuda::getCurrentCUDAStream()));
  return {std::move(grad_first), std::move(grad_second)};
}

}  // namespace

TORCH_LIBRARY_IMPL(ampctl, CUDA, library) {
  library.impl("batch_norm_pair_forward", &OfPairSchema<&forward_cuda>::call);
  library.impl("batch_norm_pair_backward", &OfPairBackwardSchema<&backward_cuda>::call);
}

}  // namespace ampctl::kernels
