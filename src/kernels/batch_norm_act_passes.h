// The two passes of batch_norm_act, apart from autograd: for its own files.
#pragma once

#include <optional>
#include <tuple>

#include <ATen/core/Tensor.h>

#include "kernels/batch_norm_act.h"

namespace ampctl::kernels {

/// As the operators return them: output, mean, invstd, positive.
using BatchNormPassed = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
/// As the operators return them: grad_input, grad_residual, grad_weight, grad_bias.
using BatchNormGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/// What the backward pass needs of the forward pass.
struct BatchNormSaved {
  at::Tensor input;
  /// Where the output was positive: bool (N, C, H, W) from stock operators; from the kernels a byte eight
  /// channels, the first in the lowest bit, (N H W C / 8), and undefined after ReLU without an addition.
  at::Tensor positive;
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor mean;    ///< (C) float32, or float64 for a float64 input
  at::Tensor invstd;  ///< as mean
  at::Tensor tickets;
  bool relu = false;
};

/// From stock operators, on any device.
BatchNormPassed batch_norm_act_forward_reference(const at::Tensor& input, const at::Tensor& residual,
                                                 const BatchNormInputs& inputs, bool relu);

/// From stock operators, which have derivatives. Each of the two gradients may be undefined, not both.
BatchNormGradients batch_norm_act_backward_reference(const at::Tensor& grad_output,
                                                     const at::Tensor& grad_second,
                                                     const BatchNormSaved& saved);

/// float16 and bfloat16 as float32, others as they are: what the references compute in, to round once.
at::Tensor in_float32(const at::Tensor& tensor);

/// The sum of two gradients, or the one that is defined.
at::Tensor summed(const at::Tensor& first, const at::Tensor& second);

/// What the operators take, as the structures above; undefined where absent.
BatchNormInputs batch_norm_inputs(const at::Tensor& weight, const at::Tensor& bias,
                                  const std::optional<at::Tensor>& running_mean,
                                  const std::optional<at::Tensor>& running_var,
                                  const std::optional<at::Tensor>& num_batches_tracked,
                                  const std::optional<at::Tensor>& tickets, double momentum, double eps);

}  // namespace ampctl::kernels
