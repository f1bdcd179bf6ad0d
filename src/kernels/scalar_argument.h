// From a 0-dim tensor to what a kernel takes. Internal to kernels/.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include "kernels/scalar_pointer.h"

namespace ampctl::kernels {

/// `op` names the operator in the message. Throws c10::Error for other number types and devices.
inline ScalarPointer scalar_argument(const at::Tensor& scalar, const at::Device& device, const char* op) {
  TORCH_CHECK(scalar.device() == device, op, " takes values on ", device, ", got one on ", scalar.device());
  const auto type = [&] {
    switch (scalar.scalar_type()) {
      case at::kDouble:
        return ValueType::float64;
      case at::kFloat:
        return ValueType::float32;
      case at::kLong:
        return ValueType::int64;
      case at::kInt:
        return ValueType::int32;
      case at::kBool:
        return ValueType::boolean;
      default:
        TORCH_CHECK(false, op, " takes float64, float32, int64, int32 or bool, not ", scalar.scalar_type());
    }
  };
  return {scalar.const_data_ptr(), type()};
}

}  // namespace ampctl::kernels
