// Batch norm layers run together with what follows them.
//
// Each function does what calling the layers one after the other does, in one operator where every layer
// allows that: in training, all of them fused() and none forced to float32, the norm not synchronised, on
// tensors that the operator has a kernel for. Else it calls them one after the other.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/forked_tensor.h"
#include "nn/batch_norm.h"
#include "nn/stateless.h"

namespace ampctl::nn {

using ForkedTensor = kernels::ForkedTensor;

/// relu(norm(input))
at::Tensor norm_relu(BatchNorm2d& norm, ReLU& relu, const at::Tensor& input);

/// relu(norm(input) + residual), in the dtype of norm(input), for two readers.
ForkedTensor norm_add_relu(BatchNorm2d& norm, ReLU& relu, const at::Tensor& input,
                           const at::Tensor& residual);

/// relu(norm(input) + shortcut_norm(shortcut_input)), in the dtype of norm(input), for two readers.
ForkedTensor norms_add_relu(BatchNorm2d& norm, ReLU& relu, const at::Tensor& input,
                            BatchNorm2d& shortcut_norm, const at::Tensor& shortcut_input);

/// pool(relu(norm(input))), for two readers.
ForkedTensor norm_relu_pool(BatchNorm2d& norm, ReLU& relu, MaxPool2d& pool, const at::Tensor& input);

}  // namespace ampctl::nn
