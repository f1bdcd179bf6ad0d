#include "kernels/max_pool.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool2d_with_indices_backward.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "base/error.h"

namespace ampctl::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

using Pooled = std::tuple<at::Tensor, at::Tensor>;
using Op = at::Tensor(const at::Tensor&, int64_t, int64_t, int64_t);
using ForwardOp = Pooled(const at::Tensor&, int64_t, int64_t, int64_t);
using BackwardOp = at::Tensor(const at::Tensor&, const at::Tensor&, at::IntArrayRef, int64_t, int64_t,
                              int64_t);

constexpr int64_t kDilation = 1;
constexpr bool kCeilMode = false;

Pooled call_forward(const at::Tensor& input, const PoolWindow& window) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ampctl::max_pool2d_with_positions", "")
                             .typed<ForwardOp>();
  return op.call(input, window.kernel_size, window.stride, window.padding);
}

at::Tensor call_backward(const at::Tensor& grad_output, const at::Tensor& positions,
                         at::IntArrayRef input_size, const PoolWindow& window) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ampctl::max_pool2d_positions_backward", "")
                             .typed<BackwardOp>();
  return op.call(grad_output, positions, input_size, window.kernel_size, window.stride, window.padding);
}

struct MaxPool2d : torch::autograd::Function<MaxPool2d> {
  static variable_list forward(AutogradContext* context, const at::Tensor& input, const PoolWindow& window) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto [output, positions] = call_forward(input, window);
    context->save_for_backward({positions});
    context->mark_non_differentiable({positions});
    context->saved_data["input_size"] = input.sizes().vec();
    context->saved_data["window"] = std::vector<int64_t>{window.kernel_size, window.stride, window.padding};
    return {std::move(output), std::move(positions)};
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const at::Tensor positions = context->get_saved_variables()[0];
    const std::vector<int64_t> input_size = context->saved_data["input_size"].toIntVector();
    const std::vector<int64_t> sizes = context->saved_data["window"].toIntVector();
    const PoolWindow window{sizes[0], sizes[1], sizes[2]};
    // Gradients are recorded here only for derivatives of a higher order, which the stock operators have.
    const bool is_recorded = at::GradMode::is_enabled();
    return {is_recorded ? max_pool2d_backward_reference(grads[0], positions, input_size, window)
                        : call_backward(grads[0], positions, input_size, window),
            {}};
  }
};

at::Tensor max_pool2d_composite(const at::Tensor& input, int64_t kernel_size, int64_t stride,
                                int64_t padding) {
  const PoolWindow window{kernel_size, stride, padding};
  if (has_max_pool_kernel(input, window)) return std::get<0>(call_forward(input, window));
  return at::max_pool2d(input, kernel_size, stride, padding, kDilation, kCeilMode);
}

Pooled forward_autograd(const at::Tensor& input, int64_t kernel_size, int64_t stride, int64_t padding) {
  const variable_list pooled = MaxPool2d::apply(input, PoolWindow{kernel_size, stride, padding});
  return {pooled[0], pooled[1]};
}

Pooled forward_composition(const at::Tensor& input, int64_t kernel_size, int64_t stride, int64_t padding) {
  PooledWithPositions pooled = max_pool2d_reference(input, {kernel_size, stride, padding});
  return {std::move(pooled.output), std::move(pooled.positions)};
}

at::Tensor backward_composition(const at::Tensor& grad_output, const at::Tensor& positions,
                                at::IntArrayRef input_size, int64_t kernel_size, int64_t stride,
                                int64_t padding) {
  return max_pool2d_backward_reference(grad_output, positions, input_size, {kernel_size, stride, padding});
}

/// (count): the first row or column of each window, outside of the image where it is padded.
at::Tensor window_starts(int64_t count, const PoolWindow& window, const at::Device& device) {
  return at::arange(count, at::TensorOptions(device).dtype(at::kLong)).mul(window.stride).sub(window.padding);
}

void check(const at::Tensor& input, const PoolWindow& window) {
  const bool good_input = input.dim() == 4 && input.size(1) >= 1 && input.size(2) >= 1 && input.size(3) >= 1;
  if (!good_input) {
    throw usage_error(c10::str(
        "max_pool2d takes images (N, C, H, W) of at least one channel and pixel, but found ", input.sizes()));
  }
  const bool good_window = window.kernel_size >= 1 && window.stride >= 1 && window.padding >= 0 &&
                           window.padding <= window.kernel_size / 2;
  if (!good_window) {
    throw usage_error(
        c10::str("max_pool2d takes a kernel_size and a stride of at least 1 and a padding from 0 to half of "
                 "kernel_size, but found kernel_size ",
                 window.kernel_size, ", stride ", window.stride, ", padding ", window.padding));
  }
  const int64_t smallest = window.kernel_size - 2 * window.padding;
  if (input.size(2) < smallest || input.size(3) < smallest) {
    throw usage_error(c10::str("max_pool2d with kernel_size ", window.kernel_size, " and padding ",
                               window.padding, " takes images of at least ", smallest, " x ", smallest,
                               " pixels, but found ", input.size(2), " x ", input.size(3)));
  }
}

void check_positions(const at::Tensor& input, const PoolWindow& window) {
  check(input, window);
  if (window.kernel_size > kMaxPositionsKernel) {
    throw usage_error(
        c10::str("max_pool2d_with_positions keeps a position in a byte, for a kernel_size of at most ",
                 kMaxPositionsKernel, ", but found ", window.kernel_size));
  }
}

}  // namespace

at::Tensor max_pool2d(const at::Tensor& input, const PoolWindow& window) {
  check(input, window);
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("ampctl::max_pool2d", "").typed<Op>();
  return op.call(input, window.kernel_size, window.stride, window.padding);
}

PooledWithPositions max_pool2d_with_positions(const at::Tensor& input, const PoolWindow& window) {
  check_positions(input, window);
  auto [output, positions] = call_forward(input, window);
  return {std::move(output), std::move(positions)};
}

PooledWithPositions max_pool2d_reference(const at::Tensor& input, const PoolWindow& window) {
  check_positions(input, window);
  auto [output, indices] = at::max_pool2d_with_indices(input, window.kernel_size, window.stride,
                                                       window.padding, kDilation, kCeilMode);
  const at::Tensor rows = indices.div(input.size(3), "floor");
  const at::Tensor columns = indices.sub(rows.mul(input.size(3)));
  const at::Tensor tops = window_starts(output.size(2), window, input.device()).view({-1, 1});
  const at::Tensor lefts = window_starts(output.size(3), window, input.device());
  return {output, rows.sub(tops).mul(window.kernel_size).add(columns).sub(lefts).to(at::kByte)};
}

at::Tensor max_pool2d_backward_reference(const at::Tensor& grad_output, const at::Tensor& positions,
                                         at::IntArrayRef input_size, const PoolWindow& window) {
  const at::Tensor tops = window_starts(positions.size(2), window, positions.device()).view({-1, 1});
  const at::Tensor lefts = window_starts(positions.size(3), window, positions.device());
  const at::Tensor codes = positions.to(at::kLong);
  const at::Tensor rows = codes.div(window.kernel_size, "floor");
  const at::Tensor columns = codes.sub(rows.mul(window.kernel_size));
  const at::Tensor indices = rows.add(tops).mul(input_size[3]).add(columns).add(lefts);
  // PyTorch's operator asks for the input, and reads nothing but its shape and memory format.
  const at::Tensor shape = at::empty(input_size, grad_output.options(), positions.suggest_memory_format());
  return at::max_pool2d_with_indices_backward(grad_output, shape, window.kernel_size, window.stride,
                                              window.padding, kDilation, kCeilMode, indices);
}

TORCH_LIBRARY_FRAGMENT(ampctl, library) {
  library.def("max_pool2d(Tensor input, int kernel_size, int stride, int padding) -> Tensor");
  library.def(
      "max_pool2d_with_positions(Tensor input, int kernel_size, int stride, int padding) -> "
      "(Tensor output, Tensor positions)");
  library.def(
      "max_pool2d_positions_backward(Tensor grad_output, Tensor positions, int[] input_size, "
      "int kernel_size, int stride, int padding) -> Tensor");
}

TORCH_LIBRARY_IMPL(ampctl, CompositeImplicitAutograd, library) {
  library.impl("max_pool2d", &max_pool2d_composite);
}

TORCH_LIBRARY_IMPL(ampctl, Autograd, library) {
  library.impl("max_pool2d_with_positions", &forward_autograd);
}

TORCH_LIBRARY_IMPL(ampctl, CPU, library) {
  library.impl("max_pool2d_with_positions", &forward_composition);
  library.impl("max_pool2d_positions_backward", &backward_composition);
}

#ifdef AMPCTL_WITH_CUDA
bool has_max_pool_kernel(const at::Tensor& input, const PoolWindow& window) {
  const at::ScalarType dtype = input.scalar_type();
  const bool has_type = dtype == at::kHalf || dtype == at::kBFloat16 || dtype == at::kFloat;
  const bool is_nhwc =
      input.is_cuda() && input.dim() == 4 && input.is_contiguous(at::MemoryFormat::ChannelsLast);
  if (!has_type || !is_nhwc) return false;
  // Offsets within an image are 32-bit numbers. Padding may make the output larger than the input.
  constexpr int64_t kMaxImage = int64_t{1} << 30;
  const int64_t height = std::max(input.size(2), window.pooled(input.size(2)));
  const int64_t width = std::max(input.size(3), window.pooled(input.size(3)));
  return window.kernel_size <= kMaxPositionsKernel && window.stride <= kMaxImage &&
         input.size(1) * height * width <= kMaxImage;
}
#else
bool has_max_pool_kernel(const at::Tensor& /*input*/, const PoolWindow& /*window*/) { return false; }

TORCH_LIBRARY_IMPL(ampctl, CUDA, library) {
  library.impl("max_pool2d_with_positions", &forward_composition);
  library.impl("max_pool2d_positions_backward", &backward_composition);
}
#endif

}  // namespace ampctl::kernels
