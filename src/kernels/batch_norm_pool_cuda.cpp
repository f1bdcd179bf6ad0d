#include <array>
#include <optional>
#include <tuple>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/batch_norm_cuda.h"
#include "kernels/batch_norm_pool.h"
#include "kernels/batch_norm_pool_kernel.h"
#include "kernels/batch_norm_pool_passes.h"
#include "kernels/maybe_tensor.h"

namespace ampctl::kernels {
namespace {

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

BatchNormPoolShape pool_shape(const at::Tensor& input) {
  return {batch_norm_shape(input),
          static_cast<unsigned>(input.size(0)),
          static_cast<int>(input.size(2)),
          static_cast<int>(input.size(3)),
          static_cast<int>(kBatchNormPoolWindow.pooled(input.size(2))),
          static_cast<int>(kBatchNormPoolWindow.pooled(input.size(3)))};
}

BatchNormPooled forward_cuda(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                             const MaybeTensor& running_mean, const MaybeTensor& running_var,
                             const MaybeTensor& num_batches_tracked, const MaybeTensor& tickets,
                             const MaybeTensor& sums, double momentum, double eps) {
  const BatchNormInputs inputs = batch_norm_inputs(weight, bias, running_mean, running_var,
                                                   num_batches_tracked, tickets, sums, momentum, eps);
  if (!has_batch_norm_kernel(input, inputs)) return batch_norm_pool_forward_reference(input, inputs);

  const c10::cuda::CUDAGuard guard(input.device());
  const BatchNormPoolShape shape = pool_shape(input);
  auto [mean, invstd] = batch_norm_statistics(input, shape.norm, inputs);
  const std::array<int64_t, 4> size{input.size(0), input.size(1), shape.pooled_height, shape.pooled_width};
  at::Tensor output = at::empty(size, input.options(), kChannelsLast);
  at::Tensor positions = at::empty(size, input.options().dtype(at::kByte), kChannelsLast);
  const BatchNormChannels channels = batch_norm_channels({{}, {}, weight, bias, mean, invstd, {}, true});
  C10_CUDA_CHECK(launch_batch_norm_pool_apply(shape, input.const_data_ptr(), output.mutable_data_ptr(),
                                              positions.mutable_data_ptr<uint8_t>(), channels,
                                              c10::cuda::getCurrentCUDAStream()));
  return {std::move(output), std::move(positions), std::move(mean), std::move(invstd)};
}

at::Tensor backward_cuda(const MaybeTensor& grad_output, const MaybeTensor& grad_second,
                         const at::Tensor& input, const at::Tensor& positions, const at::Tensor& weight,
                         const at::Tensor& bias, const at::Tensor& mean, const at::Tensor& invstd,
                         const MaybeTensor& tickets, const at::Tensor& grad_weight,
                         const at::Tensor& grad_bias) {
  const at::Tensor none;
  const at::Tensor first = grad_output.has_value() ? *grad_output : grad_second.value_or(none);
  const at::Tensor second = grad_output.has_value() ? grad_second.value_or(none) : none;
  // The same questions as before the forward pass, for what has no kernel comes back here as well.
  const BatchNormInputs inputs{weight, bias, mean, invstd, none, tickets.value_or(none)};
  if (!has_batch_norm_kernel(input, inputs)) {
    return batch_norm_pool_backward_composition(
        first, second, {input, positions, weight, bias, mean, invstd, inputs.tickets},
        {grad_weight, grad_bias});
  }
  const c10::cuda::CUDAGuard guard(input.device());
  const BatchNormPoolShape shape = pool_shape(input);
  const at::Tensor dy = batch_norm_readable(first.to(input.scalar_type()));
  const at::Tensor dy_second =
      second.defined() ? batch_norm_readable(second.to(input.scalar_type())) : at::Tensor();
  at::Tensor grad_input = at::empty_like(input, input.options(), kChannelsLast);
  const BatchNormPoolBackward tensors{dy.const_data_ptr(),
                                      dy_second.defined() ? dy_second.const_data_ptr() : nullptr,
                                      input.const_data_ptr(),
                                      positions.const_data_ptr<uint8_t>(),
                                      grad_input.mutable_data_ptr(),
                                      grad_weight.mutable_data_ptr<float>(),
                                      grad_bias.mutable_data_ptr<float>()};
  const BatchNormWorkspace workspace(shape.norm, inputs.tickets, BatchNormPass::backward);
  const BatchNormChannels channels = batch_norm_channels({{}, {}, weight, bias, mean, invstd, {}, true});
  C10_CUDA_CHECK(launch_batch_norm_pool_backward(shape, tensors, channels, workspace.scratch(),
                                                 c10::cuda::getCurrentCUDAStream()));
  return grad_input;
}

}  // namespace

TORCH_LIBRARY_IMPL(ampctl, CUDA, library) {
  library.impl("batch_norm_relu_max_pool_forward", &forward_cuda);
  library.impl("batch_norm_relu_max_pool_backward", &backward_cuda);
}

}  // namespace ampctl::kernels
