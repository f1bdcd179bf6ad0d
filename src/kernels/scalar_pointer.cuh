// Reading what a ScalarPointer points to. C++17.
#pragma once

#include "kernels/scalar_pointer.h"

namespace ampctl::kernels {

__device__ inline double read_scalar(const ScalarPointer& scalar) {
  switch (scalar.type) {
    case ValueType::float64:
      return *static_cast<const double*>(scalar.value);
    case ValueType::float32:
      return *static_cast<const float*>(scalar.value);
    case ValueType::int64:
      return static_cast<double>(*static_cast<const int64_t*>(scalar.value));
    case ValueType::int32:
      return *static_cast<const int32_t*>(scalar.value);
    case ValueType::boolean:
      return *static_cast<const bool*>(scalar.value) ? 1.0 : 0.0;
  }
  return 0.0;
}

}  // namespace ampctl::kernels
