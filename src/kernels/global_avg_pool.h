// The mean of each channel over an image, whose gradient is written in the images' own memory format:
// PyTorch's comes out in NCHW order, and the layer before it copies all of it. Registered with PyTorch's
// dispatcher as
//   ampctl::global_avg_pool2d(Tensor input) -> Tensor
//   ampctl::global_avg_pool2d_channels_last(Tensor input) -> Tensor
//   ampctl::global_avg_pool2d_backward(Tensor grad_output, int[] input_size) -> Tensor
// Under autocast each takes its input's dtype as it is, like PyTorch's adaptive_avg_pool2d.
#pragma once

#include <ATen/core/Tensor.h>

namespace ampctl::kernels {

/// torch.nn.functional.adaptive_avg_pool2d(input, 1): (N, C, H, W) to (N, C, 1, 1) of its dtype, summed in
/// float32 (float64 for float64) in the same order in every run. Differentiable any number of times. Where
/// has_global_avg_pool_kernel says no it is PyTorch's own operator, bit by bit. Throws a usage error for
/// other shapes and for images without pixels.
at::Tensor global_avg_pool2d(const at::Tensor& input);

/// True for what the CUDA kernels take: float16, bfloat16 and float32 on a GPU, contiguous in channels_last,
/// images of at most 2^30 elements. Never true in builds without CUDA kernels.
bool has_global_avg_pool_kernel(const at::Tensor& input);

/// Its gradient from stock operators on any device: grad_output (N, C, 1, 1) to `input_size`, in
/// channels_last.
at::Tensor global_avg_pool2d_backward_reference(const at::Tensor& grad_output, at::IntArrayRef input_size);

}  // namespace ampctl::kernels
