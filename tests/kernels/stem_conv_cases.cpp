#include "stem_conv_cases.h"

#include <initializer_list>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "batch_norm_fixture.h"
#include "kernels/stem_conv.h"
#include "support/catch.h"

namespace ampctl::test::stem {
namespace {

int64_t pooled(int64_t size) { return (size - 1) / 2 + 1; }

// Exact in every type, as are float32 sums of their products.
at::Tensor whole_numbers(at::IntArrayRef sizes, int64_t bound, uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randint(-bound, bound + 1, sizes, generator, at::kFloat).contiguous(kChannelsLast);
}

at::Tensor normal_numbers(at::IntArrayRef sizes, uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randn(sizes, generator, at::kFloat).contiguous(kChannelsLast);
}

// An empty tensor never counts as such.
bool is_channels_last(const at::Tensor& tensor) {
  return tensor.numel() == 0 || tensor.is_contiguous(kChannelsLast);
}

}  // namespace

Case whole_case(const Shape& shape) {
  return {whole_numbers({shape.n, 3, shape.height, shape.width}, 4, 1), whole_numbers({64, 3, 7, 7}, 2, 2),
          whole_numbers({shape.n, 64, pooled(shape.height), pooled(shape.width)}, 4, 3)};
}

Case normal_case(const Shape& shape) {
  return {normal_numbers({shape.n, 3, shape.height, shape.width}, 4),
          normal_numbers({64, 3, 7, 7}, 5).mul(0.1),
          normal_numbers({shape.n, 64, pooled(shape.height), pooled(shape.width)}, 6)};
}

Case converted(const Case& wide, at::ScalarType input, at::ScalarType compute, c10::Device device) {
  return {wide.input.to(device, input), wide.weight.to(device, compute),
          wide.grad_output.to(device, compute)};
}

Outcome run(const Case& given) {
  const at::Tensor weight = given.weight.detach().set_requires_grad(true);
  const kernels::Convolved found = kernels::stem_conv(given.input, weight);
  const at::Tensor grad = torch::autograd::grad({found.output}, {weight}, {given.grad_output})[0];
  return {found.output.detach(), found.sums, grad};
}

Outcome expected(const Case& given) {
  const at::Tensor weight = in_float64(given.weight).set_requires_grad(true);
  const at::Tensor input = in_float64(given.input.to(given.weight.scalar_type()));
  const at::Tensor output = at::conv2d(input, weight, {}, {2, 2}, {3, 3});
  return {output.detach(), at::Tensor(),
          torch::autograd::grad({output}, {weight}, {in_float64(given.grad_output)})[0]};
}

bool same(const at::Tensor& found, const at::Tensor& wanted) {
  return at::allclose(in_float64(found), in_float64(wanted), /*rtol=*/0.0, /*atol=*/0.0, /*equal_nan=*/true);
}

void check_form(const Outcome& found, const Outcome& wanted, at::ScalarType dtype) {
  CHECK(found.output.scalar_type() == dtype);
  CHECK(found.output.sizes() == wanted.output.sizes());
  CHECK(is_channels_last(found.output));
  CHECK(found.grad_weight.scalar_type() == dtype);
  CHECK(is_channels_last(found.grad_weight));
  CHECK(found.sums.scalar_type() == at::kFloat);
  CHECK(found.sums.sizes() == at::IntArrayRef({2, 64}));
  CHECK_FALSE(found.sums.requires_grad());
}

void check_sums(const Outcome& found) {
  const at::Tensor values = in_float64(found.output);
  const std::initializer_list<int64_t> pixels{0, 2, 3};
  // Of 2^-24 a value, with room for a few additions in a row.
  constexpr double kRounding = 1e-6;
  const at::Tensor room = values.abs().sum(pixels) * kRounding;
  const at::Tensor square_room = values.square().sum(pixels) * kRounding;
  const at::Tensor sums = in_float64(found.sums);
  CHECK((sums[0] - values.sum(pixels)).abs().le(room).all().item<bool>());
  CHECK((sums[1] - values.square().sum(pixels)).abs().le(square_room).all().item<bool>());
}

}  // namespace ampctl::test::stem
