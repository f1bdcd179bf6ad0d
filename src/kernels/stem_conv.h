// The first convolution of residual networks, which reads images as they are and sums its output for the
// batch norm that follows. Registered with PyTorch's dispatcher as
//   ampctl::stem_conv(Tensor input, Tensor weight) -> (Tensor output, Tensor sums)
//   ampctl::stem_conv_weight_backward(Tensor grad_output, Tensor input, Tensor weight) -> Tensor
// Under autocast each takes its weight's dtype as it is.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/convolved.h"

namespace ampctl::kernels {

/// conv2d(input.to(weight's dtype), weight, stride 2, padding 3): input (N, 3, H, W), weight (64, 3, 7, 7) on
/// one device, output (N, 64, H', W') of the weight's dtype in channels_last, H' = (H - 1) / 2 + 1, always
/// with its sums as rounded. Summed in float32, the same bits in every run. Differentiable any number of
/// times, `sums` excepted. The backward pass keeps the input as it is; its gradient for the weight comes in
/// channels_last. Where has_stem_conv_kernel says no these are PyTorch's own operators. Throws a usage error
/// for other shapes, for integers, and for more than one device.
///
/// An inf or NaN in an even column of an image also makes the output pixel to the right of those that see it
/// NaN: the kernels multiply the column to the left of a window with zero. In the last columns it may also
/// reach elements of the weight's gradient that do not see it.
Convolved stem_conv(const at::Tensor& input, const at::Tensor& weight);

/// True for what the CUDA kernels take: a float32, float16 or bfloat16 input on a GPU of compute capability
/// 8.0 or later, contiguous in channels_last, at most 864 pixels wide and of at most 2^30 values an image,
/// with a float16 or bfloat16 weight of any strides. Never true in builds without CUDA kernels.
bool has_stem_conv_kernel(const at::Tensor& input, const at::Tensor& weight);

/// The same from stock operators on any device, and its gradient for the weight.
Convolved stem_conv_reference(const at::Tensor& input, const at::Tensor& weight);
at::Tensor stem_conv_weight_backward_reference(const at::Tensor& grad_output, const at::Tensor& input,
                                               const at::Tensor& weight);

}  // namespace ampctl::kernels
