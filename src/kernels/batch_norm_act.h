// Batch normalisation in training together with what follows it in residual networks. Registered with
// PyTorch's dispatcher as
//   ampctl::batch_norm_act(Tensor input, Tensor? residual, Tensor weight, Tensor bias,
//       Tensor(a!)? running_mean, Tensor(b!)? running_var, Tensor(c!)? num_batches_tracked,
//       Tensor(d!)? tickets, Tensor? sums, float momentum, float eps, bool relu, int readers) -> Tensor[]
// and its two passes, which have no derivative of their own,
//   ampctl::batch_norm_act_forward(... the same up to relu) -> (Tensor output, Tensor mean, Tensor invstd,
//       Tensor positive)
//   ampctl::batch_norm_act_backward(Tensor? grad_output, Tensor? grad_second, Tensor input, Tensor? positive,
//       Tensor weight, Tensor bias, Tensor mean, Tensor invstd, Tensor(a!)? tickets, bool relu,
//       Tensor(b!) grad_weight, Tensor(c!) grad_bias) -> (Tensor grad_input, Tensor grad_residual)
// Under autocast each takes its tensors' dtypes as they are, like PyTorch's batch_norm.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/forked_tensor.h"
#include "kernels/gradient_slot.h"

namespace ampctl::kernels {

/// What batch norm in training reads and, of the statistics, updates in place.
struct BatchNormInputs {
  at::Tensor weight;               ///< (C) float32, or float64 for a float64 input
  at::Tensor bias;                 ///< as weight
  at::Tensor running_mean;         ///< as weight; may be undefined, with running_var
  at::Tensor running_var;          ///< as weight; takes in the batch's unbiased variance
  at::Tensor num_batches_tracked;  ///< 0-dim int64, one more; may be undefined
  at::Tensor tickets;              ///< batch_norm_tickets, needed by the kernels alone
  double momentum = 0.1;           ///< weight of the batch in the running statistics
  double eps = 1e-5;
  /// (2, C) float32 or undefined: sums over the input's rows and sums of their squares, as the convolution
  /// before gave them (kernels/conv_sums.h). The kernels then read the input only for channel groups where
  /// these do not tell the variance: see BatchNormStatistics.
  at::Tensor sums = {};
  GradientSlotPtr weight_slot = {};  ///< where the weight's gradient is wanted; may be null
  GradientSlotPtr bias_slot = {};    ///< as weight_slot
};

/// Counters in which the kernels' blocks see which of them is the last. Calls that share them must not
/// overlap, as those that share running statistics must not: a layer has its own. Kept in `kept` from the
/// first call on; one made while a CUDA graph is captured is not kept, since capturing fills no memory.
at::Tensor batch_norm_tickets(at::Tensor& kept, const c10::Device& device);

/// True for what the CUDA kernels take: float16, bfloat16 and float32 on a GPU, contiguous in channels_last,
/// a multiple of 8 channels up to 2048, two values a channel or more, 2^34 elements at most, with float32
/// parameters and statistics and tickets on the same GPU. Never true in builds without CUDA kernels.
bool has_batch_norm_kernel(const at::Tensor& input, const BatchNormInputs& inputs);

/// relu(batch_norm(input)), or batch_norm(input): (N, C, H, W) to the same shape, dtype and memory format.
/// What PyTorch's operators give, from which it differs in rounding: results are rounded once, sums and
/// statistics are float32, free of cancellation, and the same bits in every run. A NaN passes ReLU. The
/// backward pass keeps the input alone. Where has_batch_norm_kernel says no these are PyTorch's own
/// operators.
at::Tensor batch_norm_act(const at::Tensor& input, const BatchNormInputs& inputs, bool relu);

/// relu(batch_norm(input) + residual), both (N, C, H, W), in the dtype of `input`; for a residual of another
/// dtype these are PyTorch's own operators. The backward pass keeps the input and a bit an element.
ForkedTensor batch_norm_add_relu(const at::Tensor& input, const at::Tensor& residual,
                                 const BatchNormInputs& inputs);

/// What the functions above run on if there is a kernel; from stock operators elsewhere, for any device and
/// dtype. `residual` may be undefined; with one there has to be ReLU. One or two outputs. Differentiable
/// twice.
std::vector<at::Tensor> batch_norm_act_fused(const at::Tensor& input, const at::Tensor& residual,
                                             const BatchNormInputs& inputs, bool relu, int64_t readers);

}  // namespace ampctl::kernels
