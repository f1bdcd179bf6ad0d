#include "kernels/global_avg_pool.h"

#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "base/error.h"

namespace ampctl::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

using Op = at::Tensor(const at::Tensor&);
using BackwardOp = at::Tensor(const at::Tensor&, at::IntArrayRef);

at::Tensor call_forward(const at::Tensor& input) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ampctl::global_avg_pool2d_channels_last", "")
                             .typed<Op>();
  return op.call(input);
}

at::Tensor call_backward(const at::Tensor& grad_output, at::IntArrayRef input_size) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ampctl::global_avg_pool2d_backward", "")
                             .typed<BackwardOp>();
  return op.call(grad_output, input_size);
}

struct GlobalAvgPool2d : torch::autograd::Function<GlobalAvgPool2d> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    context->saved_data["input_size"] = input.sizes().vec();
    return call_forward(input);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const std::vector<int64_t> input_size = context->saved_data["input_size"].toIntVector();
    // Gradients are recorded here only for derivatives of a higher order, which the stock operators have.
    const bool is_recorded = at::GradMode::is_enabled();
    return {is_recorded ? global_avg_pool2d_backward_reference(grads[0], input_size)
                        : call_backward(grads[0], input_size)};
  }
};

at::Tensor stock(const at::Tensor& input) { return at::adaptive_avg_pool2d(input, {1, 1}); }

at::Tensor global_avg_pool2d_composite(const at::Tensor& input) {
  return has_global_avg_pool_kernel(input) ? call_forward(input) : stock(input);
}

at::Tensor forward_autograd(const at::Tensor& input) { return GlobalAvgPool2d::apply(input); }

}  // namespace

at::Tensor global_avg_pool2d(const at::Tensor& input) {
  const bool good_input = input.dim() == 4 && input.size(2) >= 1 && input.size(3) >= 1;
  if (!good_input) {
    throw usage_error(c10::str(
        "global_avg_pool2d takes images (N, C, H, W) of at least one pixel, but found ", input.sizes()));
  }
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ampctl::global_avg_pool2d", "").typed<Op>();
  return op.call(input);
}

at::Tensor global_avg_pool2d_backward_reference(const at::Tensor& grad_output, at::IntArrayRef input_size) {
  const auto pixels = static_cast<double>(input_size[2] * input_size[3]);
  return grad_output.div(pixels).expand(input_size).contiguous(at::MemoryFormat::ChannelsLast);
}

TORCH_LIBRARY_FRAGMENT(ampctl, library) {
  library.def("global_avg_pool2d(Tensor input) -> Tensor");
  library.def("global_avg_pool2d_channels_last(Tensor input) -> Tensor");
  library.def("global_avg_pool2d_backward(Tensor grad_output, int[] input_size) -> Tensor");
}

TORCH_LIBRARY_IMPL(ampctl, CompositeImplicitAutograd, library) {
  library.impl("global_avg_pool2d", &global_avg_pool2d_composite);
}

TORCH_LIBRARY_IMPL(ampctl, Autograd, library) {
  library.impl("global_avg_pool2d_channels_last", &forward_autograd);
}

TORCH_LIBRARY_IMPL(ampctl, CPU, library) {
  library.impl("global_avg_pool2d_channels_last", &stock);
  library.impl("global_avg_pool2d_backward", &global_avg_pool2d_backward_reference);
}

#ifdef AMPCTL_WITH_CUDA
bool has_global_avg_pool_kernel(const at::Tensor& input) {
  const at::ScalarType dtype = input.scalar_type();
  const bool has_type = dtype == at::kHalf || dtype == at::kBFloat16 || dtype == at::kFloat;
  const bool is_nhwc =
      input.is_cuda() && input.dim() == 4 && input.is_contiguous(at::MemoryFormat::ChannelsLast);
  constexpr int64_t kMaxImage = int64_t{1} << 30;  // offsets within an image are 32-bit numbers
  return has_type && is_nhwc && input.size(1) * input.size(2) * input.size(3) <= kMaxImage;
}
#else
bool has_global_avg_pool_kernel(const at::Tensor& /*input*/) { return false; }

TORCH_LIBRARY_IMPL(ampctl, CUDA, library) {
  library.impl("global_avg_pool2d_channels_last", &stock);
  library.impl("global_avg_pool2d_backward", &global_avg_pool2d_backward_reference);
}
#endif

}  // namespace ampctl::kernels
