#include "kernels/gradient_slot.h"

#include <utility>

#include <ATen/ops/empty_like.h>

#include "base/error.h"

namespace ampctl::kernels {

GradientSlot::GradientSlot(at::Tensor parameter, at::Tensor place)
    : parameter_(std::move(parameter)), place_(std::move(place)) {
  if (place_.scalar_type() == parameter_.scalar_type() && place_.sizes() == parameter_.sizes() &&
      place_.strides() == parameter_.strides() && place_.device() == parameter_.device()) {
    return;
  }
  throw Error(ErrorKind::internal,
              "a gradient slot must have its parameter's dtype, device, shape and strides, found " +
                  place_.toString() + " beside " + parameter_.toString());
}

at::Tensor GradientSlot::take() {
  if (parameter_.grad().defined() || !taken_.expired()) return {};
  at::Tensor alias = place_.detach();
  taken_ = alias.getIntrusivePtr();
  return alias;
}

at::Tensor gradient_memory(const GradientSlotPtr& slot, const at::Tensor& parameter) {
  at::Tensor memory = slot ? slot->take() : at::Tensor();
  return memory.defined() ? memory : at::empty_like(parameter);
}

c10::IValue to_capsule(const GradientSlotPtr& slot) {
  return slot ? c10::IValue::make_capsule(slot) : c10::IValue();
}

GradientSlotPtr gradient_slot(const c10::IValue& capsule) {
  if (capsule.isNone()) return {};
  return c10::static_intrusive_pointer_cast<GradientSlot>(capsule.toCapsule());
}

}  // namespace ampctl::kernels
