// PyTorch's default initialisation of convolutions and linear layers.
#pragma once

#include <ATen/core/Tensor.h>

namespace ampctl::nn {

/// Fills `weight` and, where defined, `bias` as torch.nn.Linear and torch.nn.Conv2d do in reset_parameters:
/// kaiming_uniform with a = sqrt(5), then uniform within 1 / sqrt(fan_in), from the default generator.
void default_init(const at::Tensor& weight, const at::Tensor& bias);

}  // namespace ampctl::nn
