// One read-only pass over all gradients: which are not finite, and how large they are. Registered with
// PyTorch's dispatcher as
//   ampctl::grad_stats(Tensor[] grads)
//       -> (Tensor nonfinite, Tensor sum_squares, Tensor found_inf, Tensor norm)
// with a CPU and a CUDA implementation; builds without CUDA kernels compose it of stock operators instead.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace ampctl::kernels {

struct GradStats {
  at::Tensor nonfinite;    ///< (n) uint8: 1 where gradient i, as it stands, holds an inf or a NaN
  at::Tensor sum_squares;  ///< (n) float64: sum of squares of gradient i
  at::Tensor found_inf;    ///< 0-dim float32: 1 where any gradient is not finite, else 0
  at::Tensor norm;         ///< 0-dim float64: the 2-norm of all gradients together
};

/// Gradients are float16, bfloat16, float32 or float64, strided, of one device, dtypes mixed at will; an
/// undefined one (a parameter without gradient) counts as empty: 0 and 0. Squares are taken and summed in
/// float64, so that large but finite gradients (scaled ones above all) never overflow the sum; the order of
/// summation is fixed, so that results are repeatable bit for bit. Nothing is read on the host; on CUDA two
/// kernels do it for up to 512 gradients. Throws a usage error for other dtypes, layouts and for mixed
/// devices.
GradStats grad_stats(const std::vector<at::Tensor>& grads);

/// The same from stock ATen operators, on any device: what the kernels are tested against.
GradStats grad_stats_reference(const std::vector<at::Tensor>& grads);

}  // namespace ampctl::kernels
