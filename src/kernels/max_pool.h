// Max pooling that keeps one byte a maximum for backward instead of the input and an int64 index. Registered
// with PyTorch's dispatcher as
//   ampctl::max_pool2d(Tensor input, int kernel_size, int stride, int padding) -> Tensor
//   ampctl::max_pool2d_with_positions(Tensor input, int kernel_size, int stride, int padding)
//       -> (Tensor output, Tensor positions)
//   ampctl::max_pool2d_positions_backward(Tensor grad_output, Tensor positions, int[] input_size,
//       int kernel_size, int stride, int padding) -> Tensor
// Under autocast each takes its input's dtype as it is, like PyTorch's max_pool2d.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace ampctl::kernels {

/// Square windows without dilation; what lies outside of the image counts as -inf.
struct PoolWindow {
  int64_t kernel_size = 2;
  int64_t stride = 2;
  int64_t padding = 0;  ///< at most kernel_size / 2

  /// Windows that fit into `size` pixels: floor((size + 2 padding - kernel_size) / stride) + 1.
  [[nodiscard]] int64_t pooled(int64_t size) const { return (size + 2 * padding - kernel_size) / stride + 1; }

  bool operator==(const PoolWindow&) const = default;
};

/// The largest kernel_size whose positions fit into a byte, with a value left that stands for none.
constexpr int64_t kMaxPositionsKernel = 15;

/// torch.nn.functional.max_pool2d: input (N, C, H, W) to (N, C, H', W') of its dtype and memory format. Of
/// equal maxima the first in row-major order gets the gradient; a NaN is greater than everything, the last
/// one wins. Differentiable any number of times. Where has_max_pool_kernel says no it is PyTorch's own
/// operator, bit by bit. Throws a usage error for other shapes and windows.
at::Tensor max_pool2d(const at::Tensor& input, const PoolWindow& window);

/// True for what the CUDA kernels take: float16, bfloat16 and float32 on a GPU, contiguous in channels_last,
/// kernel_size at most 15, images of at most 2^30 elements. Never true in builds without CUDA kernels.
bool has_max_pool_kernel(const at::Tensor& input, const PoolWindow& window);

struct PooledWithPositions {
  at::Tensor output;     ///< as of max_pool2d, and differentiable
  at::Tensor positions;  ///< uint8 (N, C, H', W'): where in its window, row * kernel_size + column
};

/// What max_pool2d runs on if there is a kernel; from stock operators elsewhere. kernel_size at most 15.
/// Backward keeps the positions only and adds each gradient where its maximum was: without atomics, summed
/// in float32, the same bits in every run.
PooledWithPositions max_pool2d_with_positions(const at::Tensor& input, const PoolWindow& window);

/// The same from stock operators on any device, and its backward pass: grad_output and positions
/// (N, C, H', W') to the gradient of the input, whose sizes are `input_size`.
PooledWithPositions max_pool2d_reference(const at::Tensor& input, const PoolWindow& window);
at::Tensor max_pool2d_backward_reference(const at::Tensor& grad_output, const at::Tensor& positions,
                                         at::IntArrayRef input_size, const PoolWindow& window);

}  // namespace ampctl::kernels
