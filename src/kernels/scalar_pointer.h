// A 0-dim tensor of any number type, as a kernel takes it. C++17, free of LibTorch.
#pragma once

#include <cstdint>

namespace ampctl::kernels {

enum class ValueType : uint8_t { float64, float32, int64, int32, boolean };

struct ScalarPointer {
  const void* value;  // on the device
  ValueType type;
};

}  // namespace ampctl::kernels
