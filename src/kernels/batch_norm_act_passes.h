// The two passes of batch_norm_act, apart from autograd: for its own files.
#pragma once

#include <optional>
#include <tuple>

#include <ATen/core/Tensor.h>

#include "kernels/batch_norm_act.h"

namespace ampctl::kernels {

/// As the operators return them: output, mean, invstd, positive.
using BatchNormPassed = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
/// grad_input, grad_residual, grad_weight, grad_bias.
using BatchNormGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/// Memory for gradients of one norm's parameters, which the backward operators fill.
struct BatchNormParameterGradients {
  at::Tensor weight;
  at::Tensor bias;

  /// In the slots' places where they can be had.
  static BatchNormParameterGradients in_slots(const c10::IValue& slots, const at::Tensor& weight,
                                              const at::Tensor& bias);
  /// For what a reference has computed elsewhere.
  void fill(const at::Tensor& grad_weight, const at::Tensor& grad_bias) const;
};

/// Both slots of one norm, for what autograd keeps beside tensors.
c10::IValue gradient_slots(const BatchNormInputs& inputs);

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

/// The same with the parameters' gradients put where the operator is told to: grad_input, grad_residual.
std::tuple<at::Tensor, at::Tensor> batch_norm_act_backward_composition(
    const at::Tensor& grad_output, const at::Tensor& grad_second, const BatchNormSaved& saved,
    const BatchNormParameterGradients& grads);

/// What the references compute in. PyTorch's float32 batch norm on the CPU is off by 1e-5 here and there, and
/// equal inputs of a channel may come out unequal: enough for another side of ReLU, and another maximum.
at::Tensor in_float64(const at::Tensor& tensor);

/// The sum of two gradients, or the one that is defined, in float64.
at::Tensor summed(const at::Tensor& first, const at::Tensor& second);

/// Gradients of batch norm alone, from that of its output (float64): of the input, the weight and the bias,
/// each in its dtype.
std::tuple<at::Tensor, at::Tensor, at::Tensor> batch_norm_backward_reference(const at::Tensor& grad,
                                                                             const at::Tensor& input,
                                                                             const at::Tensor& weight,
                                                                             const at::Tensor& mean,
                                                                             const at::Tensor& invstd);

/// What the operators take, as the structures above; undefined where absent.
BatchNormInputs batch_norm_inputs(const at::Tensor& weight, const at::Tensor& bias,
                                  const std::optional<at::Tensor>& running_mean,
                                  const std::optional<at::Tensor>& running_var,
                                  const std::optional<at::Tensor>& num_batches_tracked,
                                  const std::optional<at::Tensor>& tickets,
                                  const std::optional<at::Tensor>& sums, double momentum, double eps);

}  // namespace ampctl::kernels
