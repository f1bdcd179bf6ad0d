// A place of the caller's choice for a parameter's gradient, such as its part of a Reducer's bucket, so that
// the operator that makes the gradient writes it there and nobody copies it.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/intrusive_ptr.h>

namespace ampctl::kernels {

/// Kept by a layer, and by autograd's nodes between forward and backward (as a capsule, therefore a
/// CustomClassHolder).
class GradientSlot : public torch::CustomClassHolder {
 public:
  /// `place`: of the parameter's dtype, device, shape and strides; throws an internal error for another one.
  GradientSlot(at::Tensor parameter, at::Tensor place);

  /// An alias of the place for one gradient. Undefined where that gradient cannot go there: the parameter has
  /// one already (autograd adds to it), or the last one given out is still on its way to the parameter (one
  /// that is used twice has two gradients, which autograd adds up first).
  at::Tensor take();

 private:
  at::Tensor parameter_;
  at::Tensor place_;
  c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> taken_{
      c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>()};
};

/// May be null: none.
using GradientSlotPtr = c10::intrusive_ptr<GradientSlot>;

/// Memory for a gradient of `parameter`: the slot's place where it can be had, else new.
at::Tensor gradient_memory(const GradientSlotPtr& slot, const at::Tensor& parameter);

/// For what autograd keeps beside tensors.
c10::IValue to_capsule(const GradientSlotPtr& slot);
GradientSlotPtr gradient_slot(const c10::IValue& capsule);

}  // namespace ampctl::kernels
