// The two passes of batch_norm_pair, apart from autograd, and how its operators' schemas spell out the
// structures that they take: for its own files.
#pragma once

#include <tuple>
#include <type_traits>

#include <ATen/core/Tensor.h>

#include "kernels/batch_norm_act_passes.h"
#include "kernels/batch_norm_pair.h"
#include "kernels/maybe_tensor.h"

namespace ampctl::kernels {

/// As the operators return them: output, positive, then mean and invstd of the first norm and of the second.
using BatchNormPairPassed =
    std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
/// grad_input, grad_weight and grad_bias of the first norm and of the second.
using BatchNormPairGradients =
    std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/// What the backward pass needs of the forward pass. ReLU, `positive` and `tickets` are with the first norm.
struct BatchNormPairSaved {
  BatchNormSaved first;
  BatchNormSaved second;
};

/// As the operators return them: grad_input of the first norm and of the second.
using BatchNormPairInputGradients = std::tuple<at::Tensor, at::Tensor>;

/// Memory for the other gradients of both norms.
struct BatchNormPairParameterGradients {
  BatchNormParameterGradients first;
  BatchNormParameterGradients second;
};

/// From stock operators, on any device.
BatchNormPairPassed batch_norm_pair_forward_reference(const at::Tensor& first,
                                                      const BatchNormInputs& first_inputs,
                                                      const at::Tensor& second,
                                                      const BatchNormInputs& second_inputs);

/// From stock operators, which have derivatives. Each of the two gradients may be undefined, not both.
BatchNormPairGradients batch_norm_pair_backward_reference(const at::Tensor& grad_output,
                                                          const at::Tensor& grad_output_second,
                                                          const BatchNormPairSaved& saved);

/// The same with the parameters' gradients put where the operators are told to.
BatchNormPairInputGradients batch_norm_pair_backward_composition(
    const at::Tensor& grad_output, const at::Tensor& grad_output_second, const BatchNormPairSaved& saved,
    const BatchNormPairParameterGradients& grads);

/// What the schemas have for one norm.
inline auto batch_norm_schema(const at::Tensor& input, const BatchNormInputs& inputs) {
  return std::make_tuple(input, inputs.weight, inputs.bias, maybe(inputs.running_mean),
                         maybe(inputs.running_var), maybe(inputs.num_batches_tracked), maybe(inputs.tickets),
                         maybe(inputs.sums), inputs.momentum, inputs.eps);
}

/// A function (first, first_inputs, second, second_inputs, Rest...) with the arguments of the schemas.
template <auto kFunction, typename... Rest>
struct OfPairSchema {
  static auto call(const at::Tensor& first, const at::Tensor& first_weight, const at::Tensor& first_bias,
                   const MaybeTensor& first_running_mean, const MaybeTensor& first_running_var,
                   const MaybeTensor& first_num_batches_tracked, const MaybeTensor& first_tickets,
                   const MaybeTensor& first_sums, double first_momentum, double first_eps,
                   const at::Tensor& second, const at::Tensor& second_weight, const at::Tensor& second_bias,
                   const MaybeTensor& second_running_mean, const MaybeTensor& second_running_var,
                   const MaybeTensor& second_num_batches_tracked, const MaybeTensor& second_tickets,
                   const MaybeTensor& second_sums, double second_momentum, double second_eps, Rest... rest) {
    return kFunction(
        first,
        batch_norm_inputs(first_weight, first_bias, first_running_mean, first_running_var,
                          first_num_batches_tracked, first_tickets, first_sums, first_momentum, first_eps),
        second,
        batch_norm_inputs(second_weight, second_bias, second_running_mean, second_running_var,
                          second_num_batches_tracked, second_tickets, second_sums, second_momentum,
                          second_eps),
        rest...);
  }
  using Type = std::remove_pointer_t<decltype(&call)>;
};

/// The backward pass with the arguments of its schema.
template <auto kFunction>
struct OfPairBackwardSchema {
  static BatchNormPairInputGradients call(
      const MaybeTensor& grad_output, const MaybeTensor& grad_output_second, const at::Tensor& positive,
      const at::Tensor& first, const at::Tensor& first_weight, const at::Tensor& first_bias,
      const at::Tensor& first_mean, const at::Tensor& first_invstd, const at::Tensor& second,
      const at::Tensor& second_weight, const at::Tensor& second_bias, const at::Tensor& second_mean,
      const at::Tensor& second_invstd, const MaybeTensor& tickets, const at::Tensor& grad_first_weight,
      const at::Tensor& grad_first_bias, const at::Tensor& grad_second_weight,
      const at::Tensor& grad_second_bias) {
    const at::Tensor none;
    return kFunction(
        grad_output.value_or(none), grad_output_second.value_or(none),
        {{first, positive, first_weight, first_bias, first_mean, first_invstd, tickets.value_or(none),
          /*relu=*/true},
         {second, none, second_weight, second_bias, second_mean, second_invstd, none, /*relu=*/false}},
        {{grad_first_weight, grad_first_bias}, {grad_second_weight, grad_second_bias}});
  }
  using Type = std::remove_pointer_t<decltype(&call)>;
};

}  // namespace ampctl::kernels
