// What the first convolution of residual networks is. C++17.
#pragma once

#include <cstdint>

namespace ampctl::kernels {

constexpr int kStemInChannels = 3;
constexpr int kStemOutChannels = 64;
constexpr int kStemKernel = 7;
constexpr int kStemStride = 2;
constexpr int kStemPadding = 3;

/// Rows or columns of the output for `size` ones of the input.
constexpr int64_t stem_pixels(int64_t size) { return (size - 1) / kStemStride + 1; }

}  // namespace ampctl::kernels
