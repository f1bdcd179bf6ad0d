#include <array>
#include <cstdint>
#include <tuple>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/max_pool.h"
#include "kernels/max_pool_kernel.h"

namespace ampctl::kernels {
namespace {

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

PoolType pool_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return PoolType::float16;
    case at::kBFloat16:
      return PoolType::bfloat16;
    default:
      return PoolType::float32;
  }
}

MaxPool geometry(at::IntArrayRef input_size, at::ScalarType dtype, const PoolWindow& window) {
  MaxPool pool{};
  pool.type = pool_type(dtype);
  pool.images = input_size[0];
  pool.channels = static_cast<int>(input_size[1]);
  pool.height = static_cast<int>(input_size[2]);
  pool.width = static_cast<int>(input_size[3]);
  pool.pooled_height = static_cast<int>(window.pooled(input_size[2]));
  pool.pooled_width = static_cast<int>(window.pooled(input_size[3]));
  pool.kernel = static_cast<int>(window.kernel_size);
  pool.stride = static_cast<int>(window.stride);
  pool.padding = static_cast<int>(window.padding);
  return pool;
}

std::tuple<at::Tensor, at::Tensor> forward_cuda(const at::Tensor& input, int64_t kernel_size, int64_t stride,
                                                int64_t padding) {
  const PoolWindow window{kernel_size, stride, padding};
  if (!has_max_pool_kernel(input, window)) {
    const PooledWithPositions pooled = max_pool2d_reference(input, window);
    return {pooled.output, pooled.positions};
  }
  const c10::cuda::CUDAGuard guard(input.device());
  const MaxPool pool = geometry(input.sizes(), input.scalar_type(), window);
  const std::array<int64_t, 4> pooled_size{pool.images, pool.channels, pool.pooled_height, pool.pooled_width};
  at::Tensor output = at::empty(pooled_size, input.options(), kChannelsLast);
  at::Tensor positions = at::empty(pooled_size, input.options().dtype(at::kByte), kChannelsLast);
  C10_CUDA_CHECK(launch_max_pool_forward(pool, input.const_data_ptr(), output.mutable_data_ptr(),
                                         positions.mutable_data_ptr<uint8_t>(),
                                         c10::cuda::getCurrentCUDAStream()));
  return {output, positions};
}

at::Tensor backward_cuda(const at::Tensor& grad_output, const at::Tensor& positions,
                         at::IntArrayRef input_size, int64_t kernel_size, int64_t stride, int64_t padding) {
  const PoolWindow window{kernel_size, stride, padding};
  const c10::cuda::CUDAGuard guard(grad_output.device());
  at::Tensor grad_input = at::empty(input_size, grad_output.options(), kChannelsLast);
  // Positions of an input that had no kernel come back here as well.
  const bool has_kernel = has_max_pool_kernel(grad_input, window) && positions.is_contiguous(kChannelsLast);
  if (!has_kernel) return max_pool2d_backward_reference(grad_output, positions, input_size, window);
  const at::Tensor dy = grad_output.contiguous(kChannelsLast);
  const MaxPool pool = geometry(input_size, dy.scalar_type(), window);
  C10_CUDA_CHECK(launch_max_pool_backward(pool, dy.const_data_ptr(), positions.const_data_ptr<uint8_t>(),
                                          grad_input.mutable_data_ptr(), c10::cuda::getCurrentCUDAStream()));
  return grad_input;
}

}  // namespace

TORCH_LIBRARY_IMPL(ampctl, CUDA, library) {
  library.impl("max_pool2d_with_positions", &forward_cuda);
  library.impl("max_pool2d_positions_backward", &backward_cuda);
}

}  // namespace ampctl::kernels
