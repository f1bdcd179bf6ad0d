// Batch norm layers run together with what follows them.
//
// Each function does what calling the layers one after the other does, in one operator where every layer
// allows that: in training, all of them fused() and none forced to float32, the norm not synchronised, on
// tensors that the operator has a kernel for. Else it calls them one after the other.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/convolved.h"
#include "kernels/forked_tensor.h"
#include "nn/batch_norm.h"
#include "nn/stateless.h"

namespace ampctl::nn {

using ForkedTensor = kernels::ForkedTensor;

using Convolved = kernels::Convolved;

/// relu(norm(input.output))
at::Tensor norm_relu(BatchNorm2d& norm, ReLU& relu, const Convolved& input);

/// relu(norm(input.output) + residual), in the dtype of norm(input.output), for two readers.
ForkedTensor norm_add_relu(BatchNorm2d& norm, ReLU& relu, const Convolved& input, const at::Tensor& residual);

/// relu(norm(input.output) + shortcut_norm(shortcut.output)), in the dtype of norm(input.output), for two
/// readers.
ForkedTensor norms_add_relu(BatchNorm2d& norm, ReLU& relu, const Convolved& input, BatchNorm2d& shortcut_norm,
                            const Convolved& shortcut);

/// pool(relu(norm(input.output))), for two readers.
ForkedTensor norm_relu_pool(BatchNorm2d& norm, ReLU& relu, MaxPool2d& pool, const Convolved& input);

}  // namespace ampctl::nn
