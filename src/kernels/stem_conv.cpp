#include "kernels/stem_conv.h"

#include <array>
#include <cstdint>
#include <tuple>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_backward.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "base/error.h"
#include "kernels/stem_conv_geometry.h"

namespace ampctl::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

using Passed = std::tuple<at::Tensor, at::Tensor>;
using Op = Passed(const at::Tensor&, const at::Tensor&);
using WeightBackwardOp = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&);

constexpr std::array<int64_t, 2> kStride{kStemStride, kStemStride};
constexpr std::array<int64_t, 2> kPadding{kStemPadding, kStemPadding};
constexpr std::array<int64_t, 2> kDilation{1, 1};
constexpr std::array<int64_t, 2> kOutputPadding{0, 0};
constexpr int64_t kGroups = 1;
constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

Passed call(const at::Tensor& input, const at::Tensor& weight) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("ampctl::stem_conv", "").typed<Op>();
  return op.call(input, weight);
}

at::Tensor call_weight_backward(const at::Tensor& grad_output, const at::Tensor& input,
                                const at::Tensor& weight) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ampctl::stem_conv_weight_backward", "")
                             .typed<WeightBackwardOp>();
  return op.call(grad_output, input, weight);
}

struct Gradients {
  at::Tensor input;
  at::Tensor weight;
};

/// PyTorch's own gradients, those asked for.
Gradients stock_gradients(const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight,
                          bool for_input, bool for_weight) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  auto [grad_input, grad_weight, grad_bias] = at::convolution_backward(
      grad_output, input.to(weight.scalar_type()), weight, /*bias_sizes=*/at::OptionalIntArrayRef(), kStride,
      kPadding, kDilation, /*transposed=*/false, kOutputPadding, kGroups, {for_input, for_weight, false});
  if (grad_input.defined()) grad_input = grad_input.to(input.scalar_type());
  return {grad_input, grad_weight};
}

struct StemConvolution : torch::autograd::Function<StemConvolution> {
  static variable_list forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto [output, sums] = call(input, weight);
    context->save_for_backward({input, weight});
    context->mark_non_differentiable({sums});
    context->set_materialize_grads(false);
    return {std::move(output), std::move(sums)};
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const at::Tensor& grad_output = grads[0];
    if (!grad_output.defined()) return variable_list(2);
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    const at::Tensor& weight = saved[1];
    const bool for_input = context->needs_input_grad(0);
    const bool for_weight = context->needs_input_grad(1);
    // Gradients are recorded here only for derivatives of a higher order, which the stock operators have.
    const bool is_stock = at::GradMode::is_enabled();
    Gradients gradients;
    if (for_input || is_stock) {
      gradients = stock_gradients(grad_output, input, weight, for_input, for_weight && is_stock);
    }
    if (for_weight && !is_stock) gradients.weight = call_weight_backward(grad_output, input, weight);
    return {gradients.input, gradients.weight};
  }
};

Passed forward_autograd(const at::Tensor& input, const at::Tensor& weight) {
  const variable_list outputs = StemConvolution::apply(input, weight);
  return {outputs[0], outputs[1]};
}

Passed forward_composition(const at::Tensor& input, const at::Tensor& weight) {
  Convolved convolved = stem_conv_reference(input, weight);
  return {std::move(convolved.output), std::move(convolved.sums)};
}

void check(const at::Tensor& input, const at::Tensor& weight) {
  const bool good_input = input.dim() == 4 && input.size(1) == kStemInChannels && input.size(2) >= 1 &&
                          input.size(3) >= 1 && input.is_floating_point();
  if (!good_input) {
    throw usage_error(
        c10::str("stem_conv takes floating-point images (N, 3, H, W) of at least one pixel, but found ",
                 input.scalar_type(), " ", input.sizes()));
  }
  constexpr std::array<int64_t, 4> kSizes{kStemOutChannels, kStemInChannels, kStemKernel, kStemKernel};
  const bool good_weight = weight.sizes() == at::IntArrayRef(kSizes) && weight.is_floating_point();
  if (!good_weight) {
    throw usage_error(c10::str("stem_conv takes a floating-point weight (64, 3, 7, 7), but found ",
                               weight.scalar_type(), " ", weight.sizes()));
  }
  if (input.device() != weight.device()) {
    throw usage_error(c10::str("stem_conv takes images and weight on one device, but found ", input.device(),
                               " and ", weight.device()));
  }
}

}  // namespace

Convolved stem_conv(const at::Tensor& input, const at::Tensor& weight) {
  check(input, weight);
  auto [output, sums] = call(input, weight);
  return {std::move(output), std::move(sums)};
}

Convolved stem_conv_reference(const at::Tensor& input, const at::Tensor& weight) {
  check(input, weight);
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  at::Tensor output =
      at::conv2d(input.to(weight.scalar_type()), weight, /*bias=*/{}, kStride, kPadding, kDilation, kGroups)
          .contiguous(kChannelsLast);
  at::Tensor sums = convolved_sums(output);
  return {std::move(output), std::move(sums)};
}

at::Tensor stem_conv_weight_backward_reference(const at::Tensor& grad_output, const at::Tensor& input,
                                               const at::Tensor& weight) {
  check(input, weight);
  return stock_gradients(grad_output, input, weight, /*for_input=*/false, /*for_weight=*/true)
      .weight.contiguous(kChannelsLast);
}

TORCH_LIBRARY_FRAGMENT(ampctl, library) {
  library.def("stem_conv(Tensor input, Tensor weight) -> (Tensor output, Tensor sums)");
  library.def("stem_conv_weight_backward(Tensor grad_output, Tensor input, Tensor weight) -> Tensor");
}

TORCH_LIBRARY_IMPL(ampctl, Autograd, library) { library.impl("stem_conv", &forward_autograd); }

TORCH_LIBRARY_IMPL(ampctl, CPU, library) {
  library.impl("stem_conv", &forward_composition);
  library.impl("stem_conv_weight_backward", &stem_conv_weight_backward_reference);
}

#ifndef AMPCTL_WITH_CUDA
bool has_stem_conv_kernel(const at::Tensor& /*input*/, const at::Tensor& /*weight*/) { return false; }

TORCH_LIBRARY_IMPL(ampctl, CUDA, library) {
  library.impl("stem_conv", &forward_composition);
  library.impl("stem_conv_weight_backward", &stem_conv_weight_backward_reference);
}
#endif

}  // namespace ampctl::kernels
