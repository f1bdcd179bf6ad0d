// What a model must know of its data.
#pragma once

#include <cstdint>

namespace ampctl::model {

/// One sample, in pixels.
struct InputShape {
  int64_t channels = 3;
  int64_t height = 224;
  int64_t width = 224;
};

}  // namespace ampctl::model
