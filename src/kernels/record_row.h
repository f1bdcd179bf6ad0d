// Writes one row of scalars and flags into a ring buffer on the device. Registered with PyTorch's dispatcher
// as
//   ampctl::record_row_(Tensor(a!) rows, Tensor(b!) flags, Tensor(c!) counts, Tensor[] values, float last,
//                       Tensor nonfinite) -> ()
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace ampctl::kernels {

/// rows (capacity, values + 1) float64, flags (capacity, n) uint8, counts (2) int64: all contiguous, of one
/// device. `values` are 0-dim tensors of float64, float32, int64, int32 or bool on that device; `last` is the
/// last column; `nonfinite` (n) uint8. Row and flags go to place counts[0] % capacity; counts[0] grows by 1.
/// Nothing is read on the host, so that a CUDA graph may replay it: each replay writes the next row.
void record_row_(at::Tensor& rows, at::Tensor& flags, at::Tensor& counts,
                 const std::vector<at::Tensor>& values, double last, const at::Tensor& nonfinite);

/// The same from stock ATen operators.
void record_row_reference_(at::Tensor& rows, at::Tensor& flags, at::Tensor& counts,
                           const std::vector<at::Tensor>& values, double last, const at::Tensor& nonfinite);

}  // namespace ampctl::kernels
