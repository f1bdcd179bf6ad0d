// A tensor that two branches of a network read.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/alias.h>

namespace ampctl::kernels {

/// The same values for two readers. Where an operator of this project made them, `first` and `second` share
/// their memory but are different outputs: the operator's backward pass gets the readers' gradients one by
/// one and adds them on the way, where autograd would add them in a kernel of its own. Else both are one
/// tensor. Either may be left unread. Neither may be written to.
struct ForkedTensor {
  at::Tensor first;
  at::Tensor second;
};

/// One output a reader, of an operator whose backward pass takes a gradient from each.
inline std::vector<at::Tensor> for_readers(const at::Tensor& output, int64_t readers) {
  std::vector<at::Tensor> outputs{output};
  for (int64_t reader = 1; reader < readers; ++reader) outputs.push_back(at::alias(output));
  return outputs;
}

}  // namespace ampctl::kernels
