#include <ATen/core/Tensor.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/global_avg_pool.h"
#include "kernels/global_avg_pool_kernel.h"

namespace ampctl::kernels {
namespace {

MeanType mean_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return MeanType::float16;
    case at::kBFloat16:
      return MeanType::bfloat16;
    default:
      return MeanType::float32;
  }
}

ChannelMeans shape_of(const at::Tensor& images) {
  ChannelMeans shape{};
  shape.type = mean_type(images.scalar_type());
  shape.images = images.size(0);
  shape.pixels = static_cast<int>(images.size(2) * images.size(3));
  shape.channels = static_cast<int>(images.size(1));
  return shape;
}

at::Tensor forward_cuda(const at::Tensor& input) {
  // Images without a kernel come here when the operator is called by its name.
  if (!has_global_avg_pool_kernel(input)) return at::adaptive_avg_pool2d(input, {1, 1});
  const c10::cuda::CUDAGuard guard(input.device());
  at::Tensor means = at::empty({input.size(0), input.size(1), 1, 1}, input.options());
  C10_CUDA_CHECK(launch_channel_means(shape_of(input), input.const_data_ptr(), means.mutable_data_ptr(),
                                      c10::cuda::getCurrentCUDAStream()));
  return means;
}

at::Tensor backward_cuda(const at::Tensor& grad_output, at::IntArrayRef input_size) {
  const c10::cuda::CUDAGuard guard(grad_output.device());
  at::Tensor grad_input = at::empty(input_size, grad_output.options(), at::MemoryFormat::ChannelsLast);
  if (!has_global_avg_pool_kernel(grad_input)) {
    return global_avg_pool2d_backward_reference(grad_output, input_size);
  }
  const at::Tensor grad_means = grad_output.contiguous();
  C10_CUDA_CHECK(launch_channel_means_backward(shape_of(grad_input), grad_means.const_data_ptr(),
                                               grad_input.mutable_data_ptr(),
                                               c10::cuda::getCurrentCUDAStream()));
  return grad_input;
}

}  // namespace

TORCH_LIBRARY_IMPL(ampctl, CUDA, library) {
  library.impl("global_avg_pool2d_channels_last", &forward_cuda);
  library.impl("global_avg_pool2d_backward", &backward_cuda);
}

}  // namespace ampctl::kernels
