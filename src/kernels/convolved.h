// What a convolution hands to the batch norm behind it.
#pragma once

#include <ATen/core/Tensor.h>

namespace ampctl::kernels {

struct Convolved {
  at::Tensor output;
  /// (2, channels) float32: the sum of the output over all but the channels, and the sum of its squares; of
  /// the output as rounded or before that, as the operator says. Not differentiable. Undefined where the
  /// operator does not make them.
  at::Tensor sums;
};

/// Convolved::sums from stock operators, on any device; added in float64.
at::Tensor convolved_sums(const at::Tensor& output);

}  // namespace ampctl::kernels
