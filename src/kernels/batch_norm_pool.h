// Batch normalisation in training, ReLU and max pooling in one: the stem of residual networks. Registered
// with PyTorch's dispatcher as
//   ampctl::batch_norm_relu_max_pool(Tensor input, Tensor weight, Tensor bias, Tensor(a!)? running_mean,
//       Tensor(b!)? running_var, Tensor(c!)? num_batches_tracked, Tensor(d!)? tickets, float momentum,
//       float eps, int readers) -> Tensor[]
// and its two passes, which have no derivative of their own,
//   ampctl::batch_norm_relu_max_pool_forward(... the same up to eps) -> (Tensor output, Tensor positions,
//       Tensor mean, Tensor invstd)
//   ampctl::batch_norm_relu_max_pool_backward(Tensor? grad_output, Tensor? grad_second, Tensor input,
//       Tensor positions, Tensor weight, Tensor bias, Tensor mean, Tensor invstd, Tensor(a!)? tickets,
//       Tensor(b!) grad_weight, Tensor(c!) grad_bias) -> Tensor grad_input
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/batch_norm_act.h"
#include "kernels/forked_tensor.h"
#include "kernels/max_pool.h"

namespace ampctl::kernels {

/// The window that is compiled in.
constexpr PoolWindow kBatchNormPoolWindow{.kernel_size = 3, .stride = 2, .padding = 1};

/// max_pool2d(relu(batch_norm(input)), kBatchNormPoolWindow): (N, C, H, W) to (N, C, H', W') of its dtype and
/// memory format. Maxima are sought before the result is rounded, so that values which round to the same
/// number do not tie. Writes the pooled result and a byte each alone; the backward pass keeps these bytes and
/// the input. Where has_batch_norm_kernel says no these are PyTorch's own operators and max_pool2d.
ForkedTensor batch_norm_relu_max_pool(const at::Tensor& input, const BatchNormInputs& inputs);

/// What it runs on if there is a kernel; from stock operators elsewhere, for any device and dtype. One or two
/// outputs. Differentiable twice.
std::vector<at::Tensor> batch_norm_relu_max_pool_fused(const at::Tensor& input, const BatchNormInputs& inputs,
                                                       int64_t readers);

}  // namespace ampctl::kernels
