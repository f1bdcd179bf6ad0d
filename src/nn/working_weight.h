// A 16-bit copy of a float32 parameter that forward passes under autocast read in its place, so that nothing
// is cast in each of them. The parameter stays the leaf: its gradient is float32, and so is what the Reducer,
// accumulation and checkpoints see. Whoever writes the parameter writes the copy (kernels/param_update.h,
// WorkingWeights::refresh).
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include "kernels/gradient_slot.h"

namespace ampctl::nn {

/// `copy` (float16 or bfloat16, shape and strides of `parameter`) as a differentiable function of `parameter`
/// (a leaf): no kernel forward; backward one that casts the gradient to the parameter's dtype and layout.
/// With a slot it is written there where that can be (GradientSlot::take), and autograd's accumulation takes
/// it over without a copy; later micro-batches' gradients are added to it. Bit-equal to what autocast's own
/// cast gives. Where gradients are not recorded it is `copy` itself. With a stream the gradient is cast, and
/// accumulated, there.
at::Tensor working_weight(const at::Tensor& parameter, const at::Tensor& copy,
                          const kernels::GradientSlotPtr& slot = {},
                          const std::optional<c10::Stream>& gradient_stream = std::nullopt);

/// What a layer keeps beside a parameter.
class WorkingWeight {
 public:
  void attach(at::Tensor copy) { copy_ = std::move(copy); }
  /// Drops the copy.
  void detach();
  /// Where the layer keeps the parameter's slot.
  kernels::GradientSlotPtr& gradient_slot() { return slot_; }
  /// Nothing: gradients stay on the stream of the forward pass.
  void set_gradient_stream(const std::optional<c10::Stream>& stream) { gradient_stream_ = stream; }

  /// What the layer computes with: working_weight() where autocast is on with the copy's dtype for the
  /// parameter's kind of device, so not in layers forced to float32; else the parameter itself.
  [[nodiscard]] at::Tensor operator()(const at::Tensor& parameter) const;

 private:
  at::Tensor copy_;
  kernels::GradientSlotPtr slot_;
  std::optional<c10::Stream> gradient_stream_;
};

/// A layer some of whose parameters may have working copies.
class HasWorkingWeights {
 public:
  virtual ~HasWorkingWeights() = default;
  /// The defined ones, each with its place.
  virtual std::vector<std::pair<at::Tensor, WorkingWeight*>> working_weights() = 0;
};

}  // namespace ampctl::nn
