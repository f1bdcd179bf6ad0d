#include "kernels/conv_sums.h"

#include <array>
#include <tuple>
#include <utility>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv2d.h>
#include <torch/library.h>

#include "kernels/conv_sums_backward.h"

namespace ampctl::kernels {
namespace {

using Op = std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, const at::Tensor&, at::IntArrayRef,
                                              at::IntArrayRef);

c10::TypedOperatorHandle<Op> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Op>();
}

std::tuple<at::Tensor, at::Tensor> forward_alone(const at::Tensor& input, const at::Tensor& weight,
                                                 at::IntArrayRef stride, at::IntArrayRef padding) {
  static const auto op = find("ampctl::conv2d_sums_forward");
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return op.call(input, weight, stride, padding);
}

std::tuple<at::Tensor, at::Tensor> composite(const at::Tensor& input, const at::Tensor& weight,
                                             at::IntArrayRef stride, at::IntArrayRef padding) {
  if (!may_have_conv_sums(input, weight)) {
    return {at::conv2d(input, weight, /*bias=*/{}, stride, padding), at::Tensor()};
  }
  auto [output, sums] = forward_alone(input, weight, stride, padding);
  if (at::GradMode::is_enabled() && (input.requires_grad() || weight.requires_grad())) {
    set_conv_history(output, input, weight, stride.vec(), padding.vec());
  }
  return {std::move(output), std::move(sums)};
}

std::tuple<at::Tensor, at::Tensor> forward_reference(const at::Tensor& input, const at::Tensor& weight,
                                                     at::IntArrayRef stride, at::IntArrayRef padding) {
  at::Tensor output = at::conv2d(input, weight, /*bias=*/{}, stride, padding);
  at::Tensor sums = convolved_sums(output);
  return {std::move(output), std::move(sums)};
}

}  // namespace

Convolved conv2d_sums(const at::Tensor& input, const at::Tensor& weight, std::array<int64_t, 2> stride,
                      std::array<int64_t, 2> padding) {
  static const auto op = find("ampctl::conv2d_sums");
  auto [output, sums] = op.call(input, weight, stride, padding);
  return {std::move(output), std::move(sums)};
}

TORCH_LIBRARY_FRAGMENT(ampctl, library) {
  library.def(
      "conv2d_sums(Tensor input, Tensor weight, int[2] stride, int[2] padding) -> "
      "(Tensor output, Tensor sums)");
  library.def(
      "conv2d_sums_forward(Tensor input, Tensor weight, int[2] stride, int[2] padding) -> "
      "(Tensor output, Tensor sums)");
}

TORCH_LIBRARY_IMPL(ampctl, CompositeImplicitAutograd, library) { library.impl("conv2d_sums", &composite); }

TORCH_LIBRARY_IMPL(ampctl, CPU, library) { library.impl("conv2d_sums_forward", &forward_reference); }

#ifndef AMPCTL_WITH_CUDNN
bool may_have_conv_sums(const at::Tensor& /*input*/, const at::Tensor& /*weight*/) { return false; }

TORCH_LIBRARY_IMPL(ampctl, CUDA, library) { library.impl("conv2d_sums_forward", &forward_reference); }
#endif

}  // namespace ampctl::kernels
