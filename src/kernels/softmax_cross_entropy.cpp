#include "kernels/softmax_cross_entropy.h"

#include <tuple>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/stack.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "base/error.h"

namespace ampctl::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

using Loss = std::tuple<at::Tensor, at::Tensor>;
using Op = at::Tensor(const at::Tensor&, const at::Tensor&, double, int64_t);
using ForwardOp = Loss(const at::Tensor&, const at::Tensor&, double, int64_t);
using BackwardOp = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                              double, int64_t);

Loss call_forward(const at::Tensor& logits, const at::Tensor& targets, const CrossEntropyOptions& options) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ampctl::softmax_cross_entropy_with_normalizers", "")
                             .typed<ForwardOp>();
  return op.call(logits, targets, options.label_smoothing, options.ignore_index);
}

at::Tensor call_backward(const at::Tensor& grad_output, const at::Tensor& logits,
                         const at::Tensor& normalizers, const at::Tensor& targets,
                         const CrossEntropyOptions& options) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ampctl::softmax_cross_entropy_backward", "")
                             .typed<BackwardOp>();
  return op.call(grad_output, logits, normalizers, targets, options.label_smoothing, options.ignore_index);
}

struct SoftmaxCrossEntropy : torch::autograd::Function<SoftmaxCrossEntropy> {
  static variable_list forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& targets,
                               const CrossEntropyOptions& options) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto [loss, normalizers] = call_forward(logits, targets, options);
    context->save_for_backward({logits, normalizers, targets});
    context->mark_non_differentiable({normalizers});
    context->saved_data["label_smoothing"] = options.label_smoothing;
    context->saved_data["ignore_index"] = options.ignore_index;
    return {std::move(loss), std::move(normalizers)};
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const CrossEntropyOptions options{context->saved_data["label_smoothing"].toDouble(),
                                      context->saved_data["ignore_index"].toInt()};
    // Gradients are recorded here only for derivatives of a higher order, which the stock operators have.
    const bool is_recorded = at::GradMode::is_enabled();
    return {is_recorded ? softmax_cross_entropy_backward_reference(grads[0], saved[0], saved[2], options)
                        : call_backward(grads[0], saved[0], saved[1], saved[2], options),
            {},
            {}};
  }
};

at::Tensor softmax_cross_entropy_composite(const at::Tensor& logits, const at::Tensor& targets,
                                           double label_smoothing, int64_t ignore_index) {
  const CrossEntropyOptions options{label_smoothing, ignore_index};
  if (has_softmax_cross_entropy_kernel(logits)) return std::get<0>(call_forward(logits, targets, options));
  return softmax_cross_entropy_reference(logits, targets, options);
}

Loss forward_autograd(const at::Tensor& logits, const at::Tensor& targets, double label_smoothing,
                      int64_t ignore_index) {
  const variable_list outputs =
      SoftmaxCrossEntropy::apply(logits, targets, CrossEntropyOptions{label_smoothing, ignore_index});
  return {outputs[0], outputs[1]};
}

at::Tensor widened(const at::Tensor& logits) {
  return at::isReducedFloatingType(logits.scalar_type()) ? logits.to(at::kFloat) : logits;
}

Loss forward_composition(const at::Tensor& logits, const at::Tensor& targets, double label_smoothing,
                         int64_t ignore_index) {
  return {softmax_cross_entropy_reference(logits, targets, {label_smoothing, ignore_index}),
          softmax_normalizers_reference(logits)};
}

at::Tensor backward_composition(const at::Tensor& grad_output, const at::Tensor& logits,
                                const at::Tensor& /*normalizers*/, const at::Tensor& targets,
                                double label_smoothing, int64_t ignore_index) {
  return softmax_cross_entropy_backward_reference(grad_output, logits, targets,
                                                  {label_smoothing, ignore_index});
}

void check(const at::Tensor& logits, const at::Tensor& targets, const CrossEntropyOptions& options) {
  const bool good_logits = logits.dim() == 2 && logits.size(1) >= 1 && logits.is_floating_point();
  if (!good_logits) {
    throw usage_error(
        c10::str("softmax_cross_entropy takes floating-point logits (N, C) of at least one "
                 "class, but found ",
                 logits.scalar_type(), " ", logits.sizes()));
  }
  const bool good_targets = targets.dim() == 1 && targets.size(0) == logits.size(0) &&
                            targets.scalar_type() == at::kLong && targets.device() == logits.device();
  if (!good_targets) {
    throw usage_error(c10::str("softmax_cross_entropy takes a Long target for each of the ", logits.size(0),
                               " rows of the logits, on ", logits.device(), ", but found ",
                               targets.scalar_type(), " ", targets.sizes(), " on ", targets.device()));
  }
  const bool good_smoothing = options.label_smoothing >= 0.0 && options.label_smoothing <= 1.0;
  if (!good_smoothing) {
    throw usage_error(c10::str("softmax_cross_entropy takes a label_smoothing from 0 to 1, but found ",
                               options.label_smoothing));
  }
}

}  // namespace

at::Tensor softmax_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                                 const CrossEntropyOptions& options) {
  check(logits, targets, options);
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ampctl::softmax_cross_entropy", "").typed<Op>();
  return op.call(logits, targets, options.label_smoothing, options.ignore_index);
}

LossWithNormalizers softmax_cross_entropy_with_normalizers(const at::Tensor& logits,
                                                           const at::Tensor& targets,
                                                           const CrossEntropyOptions& options) {
  check(logits, targets, options);
  auto [loss, normalizers] = call_forward(logits, targets, options);
  return {std::move(loss), std::move(normalizers)};
}

at::Tensor softmax_cross_entropy_reference(const at::Tensor& logits, const at::Tensor& targets,
                                           const CrossEntropyOptions& options) {
  check(logits, targets, options);
  // Sixteen-bit log-softmax would lose the loss's low bits, and autocast casts it up inside its region only.
  return at::cross_entropy_loss(widened(logits), targets, /*weight=*/{}, at::Reduction::Sum,
                                options.ignore_index, options.label_smoothing);
}

at::Tensor softmax_normalizers_reference(const at::Tensor& logits) {
  const at::Tensor x = widened(logits);
  const at::Tensor largest = x.amax(1, /*keepdim=*/true);
  return at::stack({largest.squeeze(1), (x - largest).exp().sum(1).log()}, 1);
}

at::Tensor softmax_cross_entropy_backward_reference(const at::Tensor& grad_output, const at::Tensor& logits,
                                                    const at::Tensor& targets,
                                                    const CrossEntropyOptions& options) {
  check(logits, targets, options);
  const at::Tensor softmax = at::log_softmax(widened(logits), 1).exp();
  const at::Tensor ignored = targets.eq(options.ignore_index).unsqueeze(1);
  const at::Tensor columns = targets.unsqueeze(1).masked_fill(ignored, 0);
  const double spread = options.label_smoothing / static_cast<double>(logits.size(1));
  const at::Tensor wanted =
      at::full_like(softmax, spread)
          .scatter_add(1, columns, at::full_like(softmax.narrow(1, 0, 1), 1.0 - options.label_smoothing));
  return ((softmax - wanted) * grad_output).masked_fill(ignored, 0).to(logits.scalar_type());
}

TORCH_LIBRARY_FRAGMENT(ampctl, library) {
  library.def(
      "softmax_cross_entropy(Tensor logits, Tensor targets, float label_smoothing, int ignore_index) -> "
      "Tensor");
  library.def(
      "softmax_cross_entropy_with_normalizers(Tensor logits, Tensor targets, float label_smoothing, "
      "int ignore_index) -> (Tensor loss, Tensor normalizers)");
  library.def(
      "softmax_cross_entropy_backward(Tensor grad_output, Tensor logits, Tensor normalizers, Tensor targets, "
      "float label_smoothing, int ignore_index) -> Tensor");
}

TORCH_LIBRARY_IMPL(ampctl, CompositeImplicitAutograd, library) {
  library.impl("softmax_cross_entropy", &softmax_cross_entropy_composite);
}

TORCH_LIBRARY_IMPL(ampctl, Autograd, library) {
  library.impl("softmax_cross_entropy_with_normalizers", &forward_autograd);
}

TORCH_LIBRARY_IMPL(ampctl, CPU, library) {
  library.impl("softmax_cross_entropy_with_normalizers", &forward_composition);
  library.impl("softmax_cross_entropy_backward", &backward_composition);
}

#ifdef AMPCTL_WITH_CUDA
bool has_softmax_cross_entropy_kernel(const at::Tensor& logits) {
  const at::ScalarType dtype = logits.scalar_type();
  const bool has_type = dtype == at::kHalf || dtype == at::kBFloat16 || dtype == at::kFloat;
  constexpr int64_t kMaxClasses = int64_t{1} << 30;  // columns are 32-bit numbers
  return has_type && logits.is_cuda() && logits.dim() == 2 && logits.is_contiguous() &&
         logits.size(1) <= kMaxClasses;
}
#else
bool has_softmax_cross_entropy_kernel(const at::Tensor& /*logits*/) { return false; }

TORCH_LIBRARY_IMPL(ampctl, CUDA, library) {
  library.impl("softmax_cross_entropy_with_normalizers", &forward_composition);
  library.impl("softmax_cross_entropy_backward", &backward_composition);
}
#endif

}  // namespace ampctl::kernels
