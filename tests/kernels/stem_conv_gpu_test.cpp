// The kernels of the stem's convolution.
#include <limits>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/error.h"
#include "batch_norm_fixture.h"
#include "kernels/stem_conv.h"
#include "stem_conv_cases.h"
#include "support/captured.h"
#include "support/catch.h"
#include "support/no_sync.h"
#include "support/skip.h"

using namespace ampctl;
using namespace ampctl::test::stem;
using kernels::Convolved;
using kernels::stem_conv;
using test::in_float64;
using test::rounding;

namespace {

constexpr at::ScalarType kInputTypes[] = {at::kFloat, at::kHalf, at::kBFloat16};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Rows that are whole vectors and such that are not; steps and tiles that are full and such that are not.
const std::vector<Shape> kShapes{{1, 7, 7},   {3, 8, 9},   {3, 31, 33},   {2, 64, 48},  {1, 33, 64},
                                 {1, 1, 1},   {2, 2, 4},   {1, 12, 300},  {1, 9, 864},  {5, 17, 36},
                                 {0, 16, 16}, {1, 40, 31}, {1, 224, 224}, {3, 224, 224}};

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

}  // namespace

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
