// The two passes of batch_norm_relu_max_pool, apart from autograd: for its own files.
#pragma once

#include <tuple>

#include <ATen/core/Tensor.h>

#include "kernels/batch_norm_act_passes.h"

namespace ampctl::kernels {

/// As the operators return them: output, positions, mean, invstd.
using BatchNormPooled = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
/// grad_input, grad_weight, grad_bias.
using BatchNormPoolGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

/// What the backward pass needs of the forward pass.
struct BatchNormPoolSaved {
  at::Tensor input;
  at::Tensor positions;  ///< uint8 (N, C, H', W'): row * 3 + column in the window, 255 where ReLU gave zero
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor mean;    ///< (C) float32, or float64 for a float64 input
  at::Tensor invstd;  ///< as mean
  at::Tensor tickets;
};

/// From stock operators, on any device.
BatchNormPooled batch_norm_pool_forward_reference(const at::Tensor& input, const BatchNormInputs& inputs);

/// From stock operators, which have derivatives. Each of the two gradients may be undefined, not both.
BatchNormPoolGradients batch_norm_pool_backward_reference(const at::Tensor& grad_output,
                                                          const at::Tensor& grad_second,
                                                          const BatchNormPoolSaved& saved);

/// The same with the parameters' gradients put where the operator is told to: grad_input.
at::Tensor batch_norm_pool_backward_composition(const at::Tensor& grad_output, const at::Tensor& grad_second,
                                                const BatchNormPoolSaved& saved,
                                                const BatchNormParameterGradients& grads);

}  // namespace ampctl::kernels
