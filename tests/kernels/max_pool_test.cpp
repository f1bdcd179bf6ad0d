#include "kernels/max_pool.h"

#include <cmath>
#include <initializer_list>
#include <iostream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/error.h"
#include "support/devices.h"

#ifdef AMPCTL_WITH_CUDA
#include <ATen/cuda/CUDAEvent.h>

#include "support/captured.h"
#include "support/no_sync.h"
#endif

using namespace ampctl;
using kernels::max_pool2d_with_positions;
using kernels::PooledWithPositions;
using kernels::PoolWindow;

namespace {

constexpr at::ScalarType kDtypes[] = {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Overlapping, touching and with gaps between; those that kernels are compiled for and others.
const std::vector<PoolWindow> kWindows{{3, 2, 1}, {3, 2, 0}, {2, 2, 0}, {2, 2, 1}, {3, 1, 1}, {2, 1, 1},
                                       {3, 3, 1}, {5, 2, 2}, {2, 3, 0}, {1, 1, 0}, {1, 2, 0}, {7, 3, 3}};

struct Shape {
  int64_t n, channels, height, width;
};

// Channels that make whole 16-byte pieces and such that do not; more than a block of the kernels takes.
const std::vector<Shape> kShapes{{1, 1, 7, 7},   {2, 3, 9, 8},   {2, 4, 10, 7}, {3, 8, 11, 13},
                                 {1, 20, 8, 17}, {2, 64, 15, 9}, {5, 16, 7, 8}, {0, 8, 7, 7}};

// Small whole numbers: exact in every type, as are sums of a few of them, and full of ties.
at::Tensor whole_numbers(const Shape& shape, at::ScalarType dtype, uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randint(-4, 5, {shape.n, shape.channels, shape.height, shape.width}, generator, at::kFloat)
      .to(dtype)
      .contiguous(at::MemoryFormat::ChannelsLast);
}

// Whole numbers among which inf, -inf and NaN are found in many windows, also several in one.
at::Tensor with_nonfinite(const Shape& shape, at::ScalarType dtype, uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed + 1);
  const at::Tensor lot =
      at::randint(0, 12, {shape.n, shape.channels, shape.height, shape.width}, generator, at::kFloat);
  return whole_numbers(shape, at::kFloat, seed)
      .masked_fill(lot == 0, kInfinity)
      .masked_fill((lot >= 1).logical_and(lot <= 4), -kInfinity)
      .masked_fill(lot == 7, kNan)
      .to(dtype)
      .contiguous(at::MemoryFormat::ChannelsLast);
}

struct Outcome {
  at::Tensor output;
  at::Tensor grad_input;
};

at::Tensor grad_of(const at::Tensor& output, const at::Tensor& grad_output, const at::Tensor& input) {
  return torch::autograd::grad({output}, {input}, {grad_output})[0];
}

// PyTorch's own operator on the CPU, in float64, and its gradient.
Outcome expected(const at::Tensor& input, const at::Tensor& grad_output, const PoolWindow& window) {
  const at::Tensor x = input.detach().cpu().to(at::kDouble).set_requires_grad(true);
  const at::Tensor output =
      std::get<0>(at::max_pool2d_with_indices(x, window.kernel_size, window.stride, window.padding));
  return {output.detach(), grad_of(output, grad_output.cpu().to(at::kDouble), x)};
}

bool same(const at::Tensor& found, const at::Tensor& wanted) {
  return at::allclose(found.cpu().to(at::kDouble), wanted, /*rtol=*/0.0, /*atol=*/0.0, /*equal_nan=*/true);
}

// An empty tensor never counts as such.
bool is_channels_last(const at::Tensor& tensor) {
  return tensor.numel() == 0 || tensor.is_contiguous(at::MemoryFormat::ChannelsLast);
}

std::string text(const PoolWindow& window) {
  return "kernel " + std::to_string(window.kernel_size) + " stride " + std::to_string(window.stride) +
         " padding " + std::to_string(window.padding);
}

void check_against_stock(const at::Tensor& input, const at::Tensor& grad_output, const PoolWindow& window,
                         bool compares_gradient = true) {
  INFO(input.toString() << " " << input.sizes() << " " << text(window));
  const Outcome wanted = expected(input, grad_output, window);
  const at::Tensor x = input.detach().set_requires_grad(true);
  for (const auto& output : {kernels::max_pool2d(x, window), max_pool2d_with_positions(x, window).output}) {
    CHECK(output.scalar_type() == input.scalar_type());
    CHECK(is_channels_last(output));
    CHECK(same(output.detach(), wanted.output));
    const at::Tensor grad_input = grad_of(output, grad_output, x);
    CHECK(grad_input.scalar_type() == input.scalar_type());
    CHECK(is_channels_last(grad_input));
    if (compares_gradient) CHECK(same(grad_input, wanted.grad_input));
  }
}

Shape pooled(const Shape& shape, const PoolWindow& window) {
  return {shape.n, shape.channels, window.pooled(shape.height), window.pooled(shape.width)};
}

void check_shapes(c10::Device device) {
  for (const auto& window : kWindows) {
    for (const auto& shape : kShapes) {
      for (const auto dtype : kDtypes) {
        check_against_stock(whole_numbers(shape, dtype, 1).to(device),
                            whole_numbers(pooled(shape, window), dtype, 2).to(device), window);
      }
    }
  }
}

void check_nonfinite(c10::Device device) {
  for (const auto& window : kWindows) {
    for (const auto& shape : kShapes) {
      for (const auto dtype : kDtypes) {
        // PyTorch's own kernel on GPUs, which float64 is left to, differs from its CPU one for such
        // gradients.
        const bool compares_gradient = !(device.is_cuda() && dtype == at::kDouble);
        check_against_stock(with_nonfinite(shape, dtype, 3).to(device),
                            with_nonfinite(pooled(shape, window), dtype, 5).to(device), window,
                            compares_gradient);
      }
    }
  }
  const Shape shape{2, 8, 6, 6};
  const PoolWindow window{3, 2, 1};
  const at::Tensor grad = whole_numbers(pooled(shape, window), at::kHalf, 4).to(device);
  for (const double value : {kInfinity, -kInfinity, kNan, -0.0}) {
    check_against_stock(at::full_like(whole_numbers(shape, at::kHalf, 4), value).to(device), grad, window);
  }
  // Zeros are equal whatever their sign.
  const at::Tensor zeros = whole_numbers(shape, at::kHalf, 4).sign().mul(0.0).to(device);
  check_against_stock(zeros, grad, window);
}

void check_extremes(c10::Device device) {
  // The largest and the smallest numbers of each type, subnormal ones as well.
  for (const auto& [dtype, exponent] :
       {std::pair{at::kHalf, -24}, {at::kBFloat16, -133}, {at::kFloat, -149}}) {
    for (const double scale : {std::ldexp(1.0, exponent), dtype == at::kHalf ? 16376.0 : 8.0e37}) {
      const Shape shape{2, 8, 9, 9};
      const PoolWindow window{3, 2, 1};
      const at::Tensor input = whole_numbers(shape, at::kDouble, 6).mul(scale).to(dtype).to(device);
      check_against_stock(input, whole_numbers(pooled(shape, window), dtype, 7).to(device), window);
    }
  }
}

void check_float32_sums(c10::Device device) {
  // Nine windows share their maximum; in float16 2048 + 1 + ... would stay 2048.
  const at::Tensor input = at::zeros({1, 8, 5, 5}, at::kHalf).contiguous(at::MemoryFormat::ChannelsLast);
  input.select(2, 2).select(2, 2).fill_(1.0);
  const at::Tensor grad = at::ones({1, 8, 5, 5}, at::kHalf).contiguous(at::MemoryFormat::ChannelsLast);
  grad.select(2, 3).select(2, 3).fill_(2048.0);
  const at::Tensor x = input.to(device).set_requires_grad(true);
  const at::Tensor found = grad_of(kernels::max_pool2d(x, {3, 1, 1}), grad.to(device), x);
  CHECK(found[0][0][2][2].item<float>() == 2056.0F);
}

void check_positions(c10::Device device) {
  // Windows begin one pixel outside: (1, 1) of the first window is pixel (0, 0).
  const at::Tensor input = at::zeros({1, 8, 4, 4}, at::kFloat).contiguous(at::MemoryFormat::ChannelsLast);
  const auto at_pixel = [&](int64_t row, int64_t column) { return input.select(2, row).select(2, column); };
  at_pixel(1, 1).fill_(1.0);  // in all four windows, at another place in each
  for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat}) {
    const PooledWithPositions pooled =
        max_pool2d_with_positions(input.to(dtype).to(device, dtype), {3, 2, 1});
    CHECK(pooled.positions.scalar_type() == at::kByte);
    for (int64_t channel = 0; channel < 8; ++channel) {
      const at::Tensor positions = pooled.positions[0][channel].cpu();
      CHECK(positions[0][0].item<int>() == 8);
      CHECK(positions[0][1].item<int>() == 6);
      CHECK(positions[1][0].item<int>() == 2);
      CHECK(positions[1][1].item<int>() == 0);
    }
  }
}

void check_grad_layouts(c10::Device device) {
  const Shape shape{2, 8, 9, 7};
  const PoolWindow window{3, 2, 1};
  for (const auto dtype : kDtypes) {
    const at::Tensor input = whole_numbers(shape, dtype, 8).to(device);
    const at::Tensor grad = whole_numbers(pooled(shape, window), dtype, 9).to(device);
    check_against_stock(input, grad.contiguous(), window);
    check_against_stock(input, at::ones({}, grad.options()).expand(grad.sizes()), window);
    const at::Tensor gapped = at::full({2, 8, 5, 8}, kNan, grad.options()).slice(3, 0, 8, 2);
    check_against_stock(input, gapped.copy_(grad), window);
  }
}

void check_misaligned(c10::Device device) {
  const Shape shape{2, 8, 7, 6};
  const PoolWindow window{3, 2, 1};
  for (const auto dtype : kDtypes) {
    const at::Tensor values = whole_numbers(shape, dtype, 10);
    const at::Tensor buffer = at::full({values.numel() + 1}, kNan, values.options()).to(device);
    const at::Tensor input = buffer.narrow(0, 1, values.numel())
                                 .view({shape.n, shape.height, shape.width, shape.channels})
                                 .permute({0, 3, 1, 2});
    input.copy_(values);
    check_against_stock(input, whole_numbers(pooled(shape, window), dtype, 11).to(device), window);
  }
}

void check_other_layouts(c10::Device device) {
  const PoolWindow window{3, 2, 1};
  const at::Tensor grad = whole_numbers({2, 8, 5, 4}, at::kFloat, 13).to(device);
  const at::Tensor input = whole_numbers({2, 8, 9, 7}, at::kFloat, 12).to(device);
  for (const auto& other : {input.contiguous(), at::cat({input, input}, 1).narrow(1, 3, 8)}) {
    const Outcome wanted = expected(other, grad, window);
    const at::Tensor x = other.detach().set_requires_grad(true);
    const at::Tensor output = kernels::max_pool2d(x, window);
    CHECK_FALSE(kernels::has_max_pool_kernel(other, window));
    CHECK(same(output.detach(), wanted.output));
    CHECK(same(grad_of(output, grad, x), wanted.grad_input));
    CHECK(same(max_pool2d_with_positions(x, window).output.detach(), wanted.output));
  }
}

void check_second_derivative(c10::Device device) {
  const PoolWindow window{3, 2, 1};
  const at::Tensor x = whole_numbers({2, 8, 6, 6}, at::kFloat, 14).to(device).set_requires_grad(true);
  const at::Tensor grad = whole_numbers({2, 8, 3, 3}, at::kFloat, 15).to(device).set_requires_grad(true);
  const auto twice = [&](const at::Tensor& output) {
    const at::Tensor first = torch::autograd::grad({output}, {x}, {grad}, /*retain_graph=*/true,
                                                   /*create_graph=*/true)[0];
    return torch::autograd::grad({first.square().sum()}, {grad})[0];
  };
  CHECK(at::equal(twice(max_pool2d_with_positions(x, window).output), twice(at::max_pool2d(x, 3, 2, 1))));
}

void check_autocast(c10::Device device) {
  const at::Tensor input = whole_numbers({1, 8, 6, 6}, at::kFloat, 16).to(device);
  at::autocast::set_autocast_enabled(device.type(), true);
  const at::Tensor wide = kernels::max_pool2d(input, {3, 2, 1});
  const at::Tensor narrow = kernels::max_pool2d(input.to(at::kHalf), {3, 2, 1});
  at::autocast::set_autocast_enabled(device.type(), false);
  CHECK(wide.scalar_type() == at::kFloat);
  CHECK(narrow.scalar_type() == at::kHalf);
}

}  // namespace

AMPCTL_DEVICE_TEST_CASE(check_shapes,
                        "Max pooling equals PyTorch's in every dtype, shape and window, ties included",
                        "[long]")
AMPCTL_DEVICE_TEST_CASE(check_nonfinite,
                        "Infs and NaNs pass through max pooling and its gradient as in PyTorch")
AMPCTL_DEVICE_TEST_CASE(check_extremes, "Max pooling tells the largest and the smallest numbers apart")
AMPCTL_DEVICE_TEST_CASE(check_float32_sums, "Gradients of overlapping windows are summed in float32")
AMPCTL_DEVICE_TEST_CASE(check_positions,
                        "A position counts from the window's corner, also outside of the image")
AMPCTL_DEVICE_TEST_CASE(check_grad_layouts,
                        "Gradients that are contiguous, expanded or gapped are read as they are")
AMPCTL_DEVICE_TEST_CASE(check_misaligned, "Max pooling takes images that begin at any address")
AMPCTL_DEVICE_TEST_CASE(check_other_layouts, "Images in other memory formats take PyTorch's own max pooling")
AMPCTL_DEVICE_TEST_CASE(check_second_derivative, "Max pooling has a second derivative")
AMPCTL_DEVICE_TEST_CASE(check_autocast, "Autocast leaves the dtype of max pooling alone")

TEST_CASE("Max pooling refuses shapes and windows that PyTorch refuses") {
  const at::Tensor input = at::zeros({1, 2, 4, 4});
  CHECK_THROWS_AS(kernels::max_pool2d(input[0], {2, 2, 0}), Error);
  CHECK_THROWS_AS(kernels::max_pool2d(at::zeros({1, 0, 4, 4}), {2, 2, 0}), Error);
  CHECK_THROWS_AS(kernels::max_pool2d(at::zeros({1, 2, 0, 4}), {2, 2, 0}), Error);
  CHECK_THROWS_AS(kernels::max_pool2d(input, {0, 2, 0}), Error);
  CHECK_THROWS_AS(kernels::max_pool2d(input, {2, 0, 0}), Error);
  CHECK_THROWS_AS(kernels::max_pool2d(input, {2, 2, 2}), Error);
  CHECK_THROWS_AS(kernels::max_pool2d(input, {2, 2, -1}), Error);
  CHECK_THROWS_AS(kernels::max_pool2d(input, {5, 1, 0}), Error);
  CHECK_NOTHROW(kernels::max_pool2d(input, {5, 1, 1}));
  const at::Tensor large = at::zeros({1, 1, 16, 16});
  CHECK_NOTHROW(kernels::max_pool2d(large, {16, 1, 0}));
  CHECK_THROWS_AS(max_pool2d_with_positions(large, {16, 1, 0}), Error);
  CHECK_NOTHROW(max_pool2d_with_positions(large, {15, 1, 7}));
}

#ifdef AMPCTL_WITH_CUDA
TEST_CASE("The largest window fits into a byte", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const PoolWindow window{15, 4, 7};
  const Shape shape{2, 8, 40, 33};
  const at::Tensor input = whole_numbers(shape, at::kHalf, 17).to(at::kCUDA);
  CHECK(kernels::has_max_pool_kernel(input, window));
  check_against_stock(input, whole_numbers(pooled(shape, window), at::kHalf, 18).to(at::kCUDA), window);
}

TEST_CASE("Max pooling keeps positions alone for backward and repeats bit for bit", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const at::Tensor input = at::randn({4, 64, 57, 57}, at::TensorOptions(at::kCUDA).dtype(at::kHalf))
                               .contiguous(at::MemoryFormat::ChannelsLast);
  const PoolWindow window{3, 2, 1};
  CHECK(kernels::has_max_pool_kernel(input, window));
  const at::Tensor x = input.clone().set_requires_grad(true);
  const at::Tensor output = kernels::max_pool2d(x, window);
  const at::Tensor grad = at::randn_like(output);
  const auto gradient = [&] {
    return torch::autograd::grad({output}, {x}, {grad}, /*retain_graph=*/true)[0];
  };
  const at::Tensor first = gradient();
  x.data().fill_(kNan);  // unseen by autograd's version counter
  for (int i = 0; i < 5; ++i) CHECK(at::equal(gradient(), first));
}

TEST_CASE("Max pooling reads nothing on the host and replays in a CUDA graph", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const Shape shape{2, 64, 16, 16};
  const PoolWindow window{3, 2, 1};
  const at::Tensor grad = whole_numbers(pooled(shape, window), at::kHalf, 19).to(at::kCUDA);
  const at::Tensor input = whole_numbers(shape, at::kHalf, 20).to(at::kCUDA);
  const at::Tensor other = whole_numbers(shape, at::kHalf, 21).to(at::kCUDA);
  Outcome found;
  const auto run = [&] {
    const at::Tensor x = input.detach().set_requires_grad(true);
    const at::Tensor output = kernels::max_pool2d(x, window);
    found = {output.detach(), grad_of(output, grad, x)};
  };
  {
    const test::NoSync no_sync;
    CHECK_NOTHROW(run());
  }
  test::Captured graph(run);
  input.copy_(other);
  graph.replay();
  const Outcome wanted = expected(other, grad, window);
  CHECK(same(found.output, wanted.output));
  CHECK(same(found.grad_input, wanted.grad_input));
}
#endif
