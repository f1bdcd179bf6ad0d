// Inputs of the stem's convolution, what it makes of them and what PyTorch does.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace ampctl::test::stem {

constexpr at::ScalarType kComputeTypes[] = {at::kHalf, at::kBFloat16};
constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

/// Of images.
struct Shape {
  int64_t n, height, width;
};

struct Case {
  at::Tensor input;
  at::Tensor weight;
  at::Tensor grad_output;
};

/// Numbers that are exact in every type, as are float32 sums of their products.
Case whole_case(const Shape& shape);
Case normal_case(const Shape& shape);

/// Weight and gradient in `compute`.
Case converted(const Case& wide, at::ScalarType input, at::ScalarType compute, c10::Device device);

struct Outcome {
  at::Tensor output;
  at::Tensor sums;
  at::Tensor grad_weight;
};

Outcome run(const Case& given);

/// PyTorch's own operator on the CPU in float64, of the numbers that the operator rounds its input to; no
/// sums.
Outcome expected(const Case& given);

/// Bit by bit, whatever the types.
bool same(const at::Tensor& found, const at::Tensor& wanted);

void check_form(const Outcome& found, const Outcome& wanted, at::ScalarType dtype);

/// The sums are those of the output that was found.
void check_sums(const Outcome& found);

}  // namespace ampctl::test::stem
