// Tensors that may be absent, as operators' schemas have them ("Tensor?").
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

namespace ampctl::kernels {

using MaybeTensor = std::optional<at::Tensor>;

/// Absent where it is undefined.
inline MaybeTensor maybe(const at::Tensor& tensor) {
  return tensor.defined() ? MaybeTensor(tensor) : std::nullopt;
}

}  // namespace ampctl::kernels
