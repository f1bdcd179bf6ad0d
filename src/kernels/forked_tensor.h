// A tensor that two branches of a network read.
#pragma once

#include <ATen/core/Tensor.h>

namespace ampctl::kernels {

/// The same values for two readers. Where an operator of this project made them, `first` and `second` share
/// their memory but are different outputs: the operator's backward pass gets the readers' gradients one by
/// one and adds them on the way, where autograd would add them in a kernel of its own. Else both are one
/// tensor. Either may be left unread. Neither may be written to.
struct ForkedTensor {
  at::Tensor first;
  at::Tensor second;
};

}  // namespace ampctl::kernels
