#include "kernels/stem_conv.h"

#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/error.h"
#include "batch_norm_fixture.h"
#include "support/devices.h"

#ifdef AMPCTL_WITH_CUDA
#include "support/captured.h"
#include "support/no_sync.h"
#endif

using namespace ampctl;
using kernels::Convolved;
using kernels::stem_conv;
using test::in_float64;
using test::rounding;

namespace {

constexpr at::ScalarType kComputeTypes[] = {at::kHalf, at::kBFloat16};
constexpr at::ScalarType kInputTypes[] = {at::kFloat, at::kHalf, at::kBFloat16};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

struct Shape {
  int64_t n, height, width;
};

// Rows that are whole vectors and such that are not; steps and tiles that are full and such that are not.
const std::vector<Shape> kShapes{{1, 7, 7},   {3, 8, 9},   {3, 31, 33},   {2, 64, 48},  {1, 33, 64},
                                 {1, 1, 1},   {2, 2, 4},   {1, 12, 300},  {1, 9, 864},  {5, 17, 36},
                                 {0, 16, 16}, {1, 40, 31}, {1, 224, 224}, {3, 224, 224}};

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

struct Case {
  at::Tensor input;
  at::Tensor weight;
  at::Tensor grad_output;
};

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

struct Outcome {
  at::Tensor output;
  at::Tensor sums;
  at::Tensor grad_weight;
};

Outcome run(const Case& given) {
  const at::Tensor weight = given.weight.detach().set_requires_grad(true);
  const Convolved found = stem_conv(given.input, weight);
  const at::Tensor grad = torch::autograd::grad({found.output}, {weight}, {given.grad_output})[0];
  return {found.output.detach(), found.sums, grad};
}

// PyTorch's own operator on the CPU in float64, of the numbers that the operator rounds its input to.
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

// An empty tensor never counts as such.
bool is_channels_last(const at::Tensor& tensor) {
  return tensor.numel() == 0 || tensor.is_contiguous(kChannelsLast);
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

// The sums are those of the output that was found.
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

// Checks whole numbers bit by bit.
void check_whole(const Case& given) {
  const at::ScalarType dtype = given.weight.scalar_type();
  INFO(given.input.toString() << " " << given.input.sizes() << " to " << dtype);
  const Outcome wanted = expected(given);
  const Outcome found = run(given);
  check_form(found, wanted, dtype);
  CHECK(same(found.output, wanted.output.to(dtype)));
  CHECK(same(found.grad_weight, wanted.grad_weight.to(dtype)));
  check_sums(found);
}

void check_normal(const Case& given) {
  const at::ScalarType dtype = given.weight.scalar_type();
  INFO(given.input.toString() << " " << given.input.sizes() << " to " << dtype);
  const Outcome wanted = expected(given);
  const Outcome found = run(given);
  check_form(found, wanted, dtype);
  // What is rounded once, and the float32 sums before that.
  const double rtol = rounding(dtype);
  CHECK(at::allclose(in_float64(found.output), wanted.output, rtol, /*atol=*/1e-5));
  if (wanted.output.numel() > 0) {
    const auto largest = wanted.grad_weight.abs().max().item<double>();
    CHECK(at::allclose(in_float64(found.grad_weight), wanted.grad_weight, rtol, 1e-5 * largest));
  }
  check_sums(found);
}

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

#ifdef AMPCTL_WITH_CUDA
TEST_CASE("The stem's kernels give PyTorch's numbers in every shape and type", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  for (const auto& shape : kShapes) {
    for (const auto compute : kComputeTypes) {
      for (const auto input : kInputTypes) {
        const Case given = converted(whole_case(shape), input, compute, at::kCUDA);
        CHECK(kernels::has_stem_conv_kernel(given.input, given.weight));
        check_whole(given);
      }
      check_normal(converted(normal_case(shape), at::kFloat, compute, at::kCUDA));
    }
  }
}

TEST_CASE("The stem's kernels take any weight, gradient and address of images", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const Case given = converted(whole_case({2, 20, 24}), at::kFloat, at::kHalf, at::kCUDA);
  const Outcome wanted = run(given);
  const auto check = [&](const Case& other) {
    CHECK(kernels::has_stem_conv_kernel(other.input, other.weight));
    const Outcome found = run(other);
    CHECK(same(found.output, wanted.output));
    CHECK(same(found.grad_weight, wanted.grad_weight));
  };
  check({given.input, given.weight.contiguous(), given.grad_output.contiguous()});
  const at::Tensor gapped = at::full({2, 64, 10, 24}, kNan, given.grad_output.options());
  check({given.input, given.weight, gapped.slice(3, 0, 24, 2).copy_(given.grad_output)});
  for (const auto dtype : kInputTypes) {
    const at::Tensor buffer = at::full({given.input.numel() + 1}, kNan, given.input.options().dtype(dtype));
    const at::Tensor input =
        buffer.narrow(0, 1, given.input.numel()).view({2, 20, 24, 3}).permute({0, 3, 1, 2});
    input.copy_(given.input);
    check({input, given.weight, given.grad_output});
  }
}

TEST_CASE("Images without a stem kernel take PyTorch's convolution on the GPU", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const Case given = converted(whole_case({2, 20, 24}), at::kFloat, at::kHalf, at::kCUDA);
  const Case wide = converted(whole_case({1, 8, 866}), at::kFloat, at::kHalf, at::kCUDA);
  const Case nchw{given.input.contiguous(), given.weight, given.grad_output};
  for (const auto& other : {nchw, wide}) {
    CHECK_FALSE(kernels::has_stem_conv_kernel(other.input, other.weight));
    check_whole(other);
  }
  CHECK_FALSE(kernels::has_stem_conv_kernel(given.input, given.weight.to(at::kFloat)));
  CHECK_FALSE(kernels::has_stem_conv_kernel(given.input, given.weight.cpu()));
  CHECK_THROWS_AS(stem_conv(given.input, given.weight.cpu()), Error);
}

TEST_CASE("The stem's convolution repeats bit for bit", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  for (const auto dtype : kComputeTypes) {
    const Case given = converted(normal_case({32, 96, 100}), at::kFloat, dtype, at::kCUDA);
    const Outcome first = run(given);
    for (int i = 0; i < 5; ++i) {
      const Outcome again = run(given);
      CHECK(at::equal(again.output, first.output));
      CHECK(at::equal(again.sums, first.sums));
      CHECK(at::equal(again.grad_weight, first.grad_weight));
    }
  }
}

TEST_CASE("The stem's convolution counts outputs beyond 2^31", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  constexpr int64_t kImages = 2700;  // of 64 x 112 x 112 values
  const Case one = converted(whole_case({1, 224, 224}), at::kHalf, at::kHalf, at::kCUDA);
  const at::Tensor input = at::zeros({kImages, 3, 224, 224}, one.input.options()).contiguous(kChannelsLast);
  input[kImages - 1].copy_(one.input[0]);
  const at::Tensor weight = one.weight.detach().set_requires_grad(true);
  const Convolved found = stem_conv(input, weight);
  const Outcome wanted = run(one);
  CHECK(at::equal(found.output[kImages - 1], wanted.output[0]));
  CHECK_FALSE(found.output[kImages - 2].any().item<bool>());
  at::Tensor grad_output = at::zeros_like(found.output);
  grad_output[kImages - 1].copy_(one.grad_output[0]);
  CHECK(at::equal(torch::autograd::grad({found.output}, {weight}, {grad_output})[0], wanted.grad_weight));
}

TEST_CASE("The stem's convolution reads nothing on the host and replays in a CUDA graph", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const Case given = converted(whole_case({2, 32, 40}), at::kFloat, at::kHalf, at::kCUDA);
  Outcome found;
  {
    const test::NoSync no_sync;
    CHECK_NOTHROW(found = run(given));
  }
  test::Captured graph([&] { found = run(given); });
  given.input.neg_();
  graph.replay();
  const Outcome wanted = expected(given);
  CHECK(same(found.output, wanted.output.to(at::kHalf)));
  CHECK(same(found.grad_weight, wanted.grad_weight.to(at::kHalf)));
}
#endif
