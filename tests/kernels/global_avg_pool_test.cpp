#include "kernels/global_avg_pool.h"

#include <limits>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/error.h"
#include "support/devices.h"

#ifdef AMPCTL_WITH_CUDA
#include "support/captured.h"
#include "support/no_sync.h"
#endif

using namespace ampctl;
using kernels::global_avg_pool2d;

namespace {

constexpr at::ScalarType kDtypes[] = {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Channels that make whole 16-byte pieces and such that do not; one pixel and many; no image at all.
const std::vector<std::vector<int64_t>> kShapes{{2, 64, 7, 7},  {3, 8, 1, 1},    {1, 3, 5, 9},
                                                {5, 20, 4, 3},  {2, 2048, 2, 2}, {0, 8, 7, 7},
                                                {1, 1, 33, 31}, {300, 16, 7, 7}};

at::Tensor normal(const std::vector<int64_t>& shape, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::kDouble);
}

at::Tensor images(const at::Tensor& values, at::ScalarType dtype, c10::Device device) {
  return values.to(dtype).to(device).contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor grad_of(const at::Tensor& output, const at::Tensor& input, const at::Tensor& grad_output) {
  return torch::autograd::grad({output}, {input}, {grad_output})[0];
}

// Twice the rounding of each type.
double rounding(at::ScalarType dtype) {
  if (dtype == at::kHalf) return 1e-3;
  return dtype == at::kBFloat16 ? 8e-3 : 1e-6;
}

bool close(const at::Tensor& found, const at::Tensor& wanted, at::ScalarType dtype) {
  return at::allclose(found.cpu().to(at::kDouble), wanted.to(dtype).to(at::kDouble), rounding(dtype),
                      dtype == at::kDouble ? 1e-12 : 1e-6, /*equal_nan=*/true);
}

// PyTorch's own operator on the CPU, in float64, on the values that the type holds.
void check_against_stock(const at::Tensor& input, const at::Tensor& grad_output) {
  const auto dtype = input.scalar_type();
  INFO(input.toString() << " " << input.sizes());
  const at::Tensor wide = input.detach().cpu().to(at::kDouble).contiguous().set_requires_grad(true);
  const at::Tensor wanted = at::adaptive_avg_pool2d(wide, {1, 1});
  const at::Tensor x = input.detach().set_requires_grad(true);
  const at::Tensor found = global_avg_pool2d(x);
  CHECK(found.scalar_type() == dtype);
  CHECK(found.sizes() == wanted.sizes());
  CHECK(close(found.detach(), wanted.detach(), dtype));
  const at::Tensor grad = grad_of(found, x, grad_output);
  CHECK(grad.scalar_type() == dtype);
  const bool has_kernel = kernels::has_global_avg_pool_kernel(input);
  if (has_kernel && grad.numel() > 0) CHECK(grad.is_contiguous(at::MemoryFormat::ChannelsLast));
  CHECK(close(grad, grad_of(wanted, wide, grad_output.cpu().to(at::kDouble)), dtype));
}

void check_shapes(c10::Device device) {
  for (const auto& shape : kShapes) {
    const at::Tensor values = normal(shape, 1);
    const at::Tensor grad = normal({shape[0], shape[1], 1, 1}, 2);
    for (const auto dtype : kDtypes) {
      check_against_stock(images(values, dtype, device), grad.to(dtype).to(device));
      check_against_stock(values.to(dtype).to(device), grad.to(dtype).to(device));
    }
  }
}

void check_nonfinite(c10::Device device) {
  for (const double value : {kInfinity, -kInfinity, kNan}) {
    at::Tensor values = normal({2, 16, 5, 5}, 3);
    values.select(0, 1).select(0, 3).select(0, 4).select(0, 4).fill_(value);
    at::Tensor grad = normal({2, 16, 1, 1}, 4);
    grad.select(0, 0).select(0, 5).fill_(value);
    for (const auto dtype : kDtypes) {
      check_against_stock(images(values, dtype, device), grad.to(dtype).to(device));
    }
  }
}

void check_large_sums(c10::Device device) {
  // The sum is beyond float16, the mean is not.
  const at::Tensor input = images(at::full({1, 8, 7, 7}, 60000.0), at::kHalf, device);
  CHECK(global_avg_pool2d(input).eq(60000.0).all().item<bool>());
}

void check_misaligned(c10::Device device) {
  const at::Tensor values = normal({2, 16, 3, 5}, 5);
  const at::Tensor grad = normal({2, 16, 1, 1}, 6);
  for (const auto dtype : kDtypes) {
    const at::Tensor buffer = at::full({values.numel() + 1}, kNan, at::TensorOptions(dtype)).to(device);
    const at::Tensor input = buffer.narrow(0, 1, values.numel()).view({2, 3, 5, 16}).permute({0, 3, 1, 2});
    input.copy_(values);
    const at::Tensor gapped = at::full({2, 16, 1, 2}, kNan, at::TensorOptions(dtype)).to(device);
    check_against_stock(input, gapped.narrow(3, 0, 1).copy_(grad));
  }
}

void check_second_derivative(c10::Device device) {
  const at::Tensor x = images(normal({2, 8, 3, 3}, 7), at::kFloat, device).set_requires_grad(true);
  const at::Tensor grad = normal({2, 8, 1, 1}, 8).to(at::kFloat).to(device).set_requires_grad(true);
  const auto twice = [&](const at::Tensor& output) {
    const at::Tensor first = torch::autograd::grad({output}, {x}, {grad}, /*retain_graph=*/true,
                                                   /*create_graph=*/true)[0];
    return torch::autograd::grad({first.square().sum()}, {grad})[0];
  };
  CHECK(at::allclose(twice(global_avg_pool2d(x)), twice(at::adaptive_avg_pool2d(x, {1, 1}))));
}

void check_autocast(c10::Device device) {
  const at::Tensor input = images(normal({2, 8, 3, 3}, 9), at::kHalf, device);
  at::autocast::set_autocast_enabled(device.type(), true);
  const at::Tensor narrow = global_avg_pool2d(input);
  const at::Tensor wide = global_avg_pool2d(input.to(at::kFloat));
  at::autocast::set_autocast_enabled(device.type(), false);
  CHECK(narrow.scalar_type() == at::kHalf);
  CHECK(wide.scalar_type() == at::kFloat);
}

}  // namespace

AMPCTL_DEVICE_TEST_CASE(check_shapes, "Global average pooling equals PyTorch's in every dtype and shape")
AMPCTL_DEVICE_TEST_CASE(check_nonfinite, "Infs and NaNs pass through global average pooling as in PyTorch")
AMPCTL_DEVICE_TEST_CASE(check_large_sums, "Global average pooling sums float16 in float32")
AMPCTL_DEVICE_TEST_CASE(check_misaligned,
                        "Global average pooling takes images at any address and gapped gradients")
AMPCTL_DEVICE_TEST_CASE(check_second_derivative, "Global average pooling has a second derivative")
AMPCTL_DEVICE_TEST_CASE(check_autocast, "Autocast leaves the dtype of global average pooling alone")

TEST_CASE("Global average pooling refuses what is no image") {
  CHECK_THROWS_AS(global_avg_pool2d(at::zeros({2, 3, 4})), Error);
  CHECK_THROWS_AS(global_avg_pool2d(at::zeros({2, 3, 0, 4})), Error);
}

#ifdef AMPCTL_WITH_CUDA
TEST_CASE("Global average pooling reads nothing on the host and replays in a CUDA graph", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  at::Tensor input = images(normal({2, 64, 7, 7}, 10), at::kHalf, at::kCUDA);
  const at::Tensor other = images(normal({2, 64, 7, 7}, 11), at::kHalf, at::kCUDA);
  const at::Tensor grad_output = normal({2, 64, 1, 1}, 12).to(at::kCUDA, at::kHalf);
  at::Tensor means;
  at::Tensor grad;
  const auto run = [&] {
    const at::Tensor x = input.detach().set_requires_grad(true);
    const at::Tensor output = global_avg_pool2d(x);
    means = output.detach();
    grad = grad_of(output, x, grad_output);
  };
  {
    const test::NoSync no_sync;
    CHECK_NOTHROW(run());
  }
  const at::Tensor eager_grad = grad;
  test::Captured graph(run);
  input.copy_(other);
  graph.replay();
  CHECK(at::equal(means, global_avg_pool2d(other)));
  CHECK(at::equal(grad, eager_grad));
}
#endif
