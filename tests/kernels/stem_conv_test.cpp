#include "kernels/stem_conv.h"

#include <limits>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/error.h"
#include "stem_conv_cases.h"
#include "support/devices.h"

using namespace ampctl;
using namespace ampctl::test::stem;
using kernels::Convolved;
using kernels::stem_conv;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

void check_double_backward(c10::Device device) {
  const Case given = converted(whole_case({2, 16, 20}), at::kFloat, at::kHalf, device);
  const auto second = [&](auto convolve) {
    const at::Tensor weight = given.weight.detach().set_requires_grad(true);
    const at::Tensor grad = given.grad_output.detach().set_requires_grad(true);
    const at::Tensor first = torch::autograd::grad({convolve(weight)}, {weight}, {grad},
                                                   /*retain_graph=*/true, /*create_graph=*/true)[0];
    return torch::autograd::grad({(first * given.weight).sum()}, {grad})[0];
  };
  const at::Tensor found = second([&](const at::Tensor& w) { return stem_conv(given.input, w).output; });
  const at::Tensor wanted = second([&](const at::Tensor& w) {
    return at::conv2d(given.input.to(at::kHalf), w, {}, {2, 2}, {3, 3});
  });
  CHECK(same(found, wanted));
}

void check_input_gradient(c10::Device device) {
  const Case given = converted(whole_case({2, 16, 20}), at::kFloat, at::kHalf, device);
  const at::Tensor input = given.input.detach().set_requires_grad(true);
  const at::Tensor weight = given.weight.detach().set_requires_grad(true);
  const auto found =
      torch::autograd::grad({stem_conv(input, weight).output}, {input, weight}, {given.grad_output});
  const at::Tensor stock = at::conv2d(input.to(at::kHalf), weight, {}, {2, 2}, {3, 3});
  const auto wanted = torch::autograd::grad({stock}, {input, weight}, {given.grad_output});
  CHECK(found[0].scalar_type() == at::kFloat);
  CHECK(same(found[0], wanted[0]));
  CHECK(same(found[1], wanted[1]));

  const at::Tensor frozen = stem_conv(input, given.weight).output;
  CHECK(same(torch::autograd::grad({frozen}, {input}, {given.grad_output})[0], wanted[0]));
}

void check_autocast(c10::Device device) {
  const Case given = converted(whole_case({1, 16, 16}), at::kFloat, at::kBFloat16, device);
  const Convolved plain = stem_conv(given.input, given.weight);
  const Convolved wide = stem_conv(given.input, given.weight.to(at::kFloat));
  at::autocast::set_autocast_enabled(device.type(), true);
  at::autocast::set_autocast_dtype(device.type(), at::kHalf);
  const Convolved under = stem_conv(given.input, given.weight);
  const Convolved under_wide = stem_conv(given.input, given.weight.to(at::kFloat));
  at::autocast::set_autocast_dtype(device.type(), device.is_cuda() ? at::kHalf : at::kBFloat16);
  at::autocast::set_autocast_enabled(device.type(), false);
  CHECK(under.output.scalar_type() == at::kBFloat16);
  CHECK(same(under.output, plain.output));
  CHECK(under_wide.output.scalar_type() == at::kFloat);
  CHECK(same(under_wide.output, wide.output));
}

void check_nonfinite_gradient(c10::Device device) {
  for (const auto dtype : kComputeTypes) {
    for (const double value : {kInfinity, -kInfinity, kNan}) {
      const Case given = converted(whole_case({2, 33, 37}), at::kFloat, dtype, device);
      given.grad_output[1][5][8][9].fill_(value);
      const at::Tensor grad = run(given).grad_weight;
      CHECK_FALSE(at::isfinite(grad[5]).any().item<bool>());
      CHECK(at::isfinite(grad[4]).all().item<bool>());
      CHECK(at::isfinite(grad[6]).all().item<bool>());
    }
  }
}

void check_nonfinite_image(c10::Device device) {
  constexpr double kBeyondFloat16 = 1e6;
  for (const double value : {kInfinity, kNan, kBeyondFloat16}) {
    const Case given = converted(whole_case({2, 33, 37}), at::kFloat, at::kHalf, device);
    given.input[1][2][16][17].fill_(value);
    const at::Tensor output = stem_conv(given.input, given.weight).output;
    CHECK(at::isfinite(output[0]).all().item<bool>());
    // Rows 7 to 9, columns 7 to 10 see the pixel; an odd column of the image is left of no window.
    const at::Tensor finite = at::isfinite(output[1]).all(0).cpu();
    for (int64_t row = 0; row < finite.size(0); ++row) {
      for (int64_t column = 0; column < finite.size(1); ++column) {
        const bool is_seen = row >= 7 && row <= 9 && column >= 7 && column <= 10;
        CHECK(finite[row][column].item<bool>() == !is_seen);
      }
    }
  }
}

}  // namespace

AMPCTL_DEVICE_TEST_CASE(check_double_backward, "The stem's convolution has a second derivative")
AMPCTL_DEVICE_TEST_CASE(check_input_gradient, "The stem's convolution has a gradient for its images")
AMPCTL_DEVICE_TEST_CASE(check_autocast, "Autocast leaves the dtypes of the stem's convolution alone")
AMPCTL_DEVICE_TEST_CASE(check_nonfinite_gradient,
                        "Infs and NaNs in the stem's gradient reach that of their channel's weight")
AMPCTL_DEVICE_TEST_CASE(check_nonfinite_image, "Infs and NaNs in an image reach the outputs that see them")

TEST_CASE("Without a kernel the stem's convolution is PyTorch's own") {
  for (const auto compute : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    const Case given = converted(normal_case({2, 15, 18}), at::kFloat, compute, at::kCPU);
    CHECK_FALSE(kernels::has_stem_conv_kernel(given.input, given.weight));
    const at::Tensor weight = given.weight.detach().set_requires_grad(true);
    const at::Tensor stock = at::conv2d(given.input.to(compute), weight, {}, {2, 2}, {3, 3});
    const Outcome found = run(given);
    const Outcome wanted{stock.detach(), at::Tensor(),
                         torch::autograd::grad({stock}, {weight}, {given.grad_output})[0]};
    check_form(found, wanted, compute);
    CHECK(same(found.output, wanted.output));
    CHECK(same(found.grad_weight, wanted.grad_weight));
    check_sums(found);
  }
}

TEST_CASE("The stem's convolution refuses other shapes and types") {
  const at::Tensor input = at::zeros({1, 3, 8, 8});
  const at::Tensor weight = at::zeros({64, 3, 7, 7});
  CHECK_NOTHROW(stem_conv(input, weight));
  CHECK_THROWS_AS(stem_conv(input[0], weight), Error);
  CHECK_THROWS_AS(stem_conv(at::zeros({1, 4, 8, 8}), weight), Error);
  CHECK_THROWS_AS(stem_conv(at::zeros({1, 3, 0, 8}), weight), Error);
  CHECK_THROWS_AS(stem_conv(input.to(at::kByte), weight), Error);
  CHECK_THROWS_AS(stem_conv(input, at::zeros({64, 3, 3, 3})), Error);
  CHECK_THROWS_AS(stem_conv(input, at::zeros({32, 3, 7, 7})), Error);
  CHECK_THROWS_AS(stem_conv(input, weight.to(at::kInt)), Error);
}
