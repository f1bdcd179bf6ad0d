// A convolution that also gives the sums that the batch norm behind it needs, so that its output is not read
// again for them. Registered with PyTorch's dispatcher as
//   ampctl::conv2d_sums(Tensor input, Tensor weight, int[2] stride, int[2] padding)
//       -> (Tensor output, Tensor sums)
// and, without a derivative of its own,
//   ampctl::conv2d_sums_forward(... the same) -> (Tensor output, Tensor sums)
// Under autocast it takes its tensors' dtypes as they are.
#pragma once

#include <array>
#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/convolved.h"

namespace ampctl::kernels {

/// True for what the operator may have a plan for: float16 and bfloat16 on a GPU, input and weight of one
/// dtype in channels_last, channels in multiples of 8, while plans may be chosen by measuring
/// (torch.backends.cudnn.benchmark, no deterministic algorithms). Never true in builds without cuDNN's
/// header.
bool may_have_conv_sums(const at::Tensor& input, const at::Tensor& weight);

/// conv2d(input, weight) without bias, one group: (N, C, H, W), (K, C, R, S) to (N, K, H', W').
///
/// Where may_have_conv_sums, in float16, the first call for given shapes measures cuDNN's plans for
/// convolution and sums together (its graph API: a convolution followed by
/// CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR) against PyTorch's convolution and a pass for the statistics,
/// and keeps what was faster for the thread's later calls; while a CUDA graph is captured nothing is
/// measured. Its sums are those of the output before it is rounded. Elsewhere it is at::conv2d, without sums.
/// The derivative is PyTorch's; where may_have_conv_sums it may run on two streams: see set_conv_history.
Convolved conv2d_sums(const at::Tensor& input, const at::Tensor& weight, std::array<int64_t, 2> stride,
                      std::array<int64_t, 2> padding);

}  // namespace ampctl::kernels
