// The end of a residual block whose shortcut ends in a batch norm as well: both norms in training, their sum
// and ReLU in one. Registered with PyTorch's dispatcher as
//   ampctl::batch_norm_pair(Tensor first, Tensor first_weight, Tensor first_bias,
//       Tensor(a!)? first_running_mean, Tensor(b!)? first_running_var,
//       Tensor(c!)? first_num_batches_tracked, Tensor(d!)? first_tickets, Tensor? first_sums,
//       float first_momentum, float first_eps, Tensor second, ... the same of the second norm, int readers)
//       -> Tensor[]
// and its two passes, which have no derivative of their own,
//   ampctl::batch_norm_pair_forward(... the same up to readers) -> (Tensor output, Tensor positive,
//       Tensor first_mean, Tensor first_invstd, Tensor second_mean, Tensor second_invstd)
//   ampctl::batch_norm_pair_backward(Tensor? grad_output, Tensor? grad_output_second, Tensor positive,
//       Tensor first, Tensor first_weight, Tensor first_bias, Tensor first_mean, Tensor first_invstd,
//       Tensor second, ... the same of the second norm, Tensor(a!)? tickets, Tensor(b!) grad_first_weight,
//       Tensor(c!) grad_first_bias, Tensor(d!) grad_second_weight, Tensor(e!) grad_second_bias)
//       -> (Tensor grad_first, Tensor grad_second)
// Under autocast each takes its tensors' dtypes as they are, like PyTorch's batch_norm.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/batch_norm_act.h"
#include "kernels/forked_tensor.h"

namespace ampctl::kernels {

/// relu(batch_norm(first) + batch_norm(second)), each with its own parameters and statistics, both
/// (N, C, H, W), in the dtype and memory format of `first`. Rounded once, where batch_norm_act for `second`
/// and batch_norm_add_relu for `first` round and move the second one's result in between; else as those. The
/// backward pass keeps both inputs and a bit an element. Where has_batch_norm_pair_kernel says no it is those
/// two. Throws a usage error for inputs of different shapes.
ForkedTensor batch_norm_pair_add_relu(const at::Tensor& first, const BatchNormInputs& first_inputs,
                                      const at::Tensor& second, const BatchNormInputs& second_inputs);

/// True for two inputs of one shape, dtype and device that has_batch_norm_kernel takes.
bool has_batch_norm_pair_kernel(const at::Tensor& first, const BatchNormInputs& first_inputs,
                                const at::Tensor& second, const BatchNormInputs& second_inputs);

/// What batch_norm_pair_add_relu runs on if there is a kernel; from stock operators elsewhere, for any device
/// and dtype. One or two outputs. Differentiable twice.
std::vector<at::Tensor> batch_norm_pair_fused(const at::Tensor& first, const BatchNormInputs& first_inputs,
                                              const at::Tensor& second, const BatchNormInputs& second_inputs,
                                              int64_t readers);

}  // namespace ampctl::kernels
