// The derivative of a convolution as two autograd nodes, so that the weight's gradient need not hold up the
// input's, on which all earlier layers wait.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace ampctl::kernels {

/// Makes `output` the differentiable result of conv2d(input, weight) without bias, one group, no dilation.
/// The weight's gradient is computed on the stream on which the weight's own history was made, the input's
/// on the current one; autograd lets each wait for what it reads, and the caller of backward() for both.
void set_conv_history(at::Tensor& output, const at::Tensor& input, const at::Tensor& weight,
                      const std::vector<int64_t>& stride, const std::vector<int64_t>& padding);

}  // namespace ampctl::kernels
