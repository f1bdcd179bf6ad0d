#include "kernels/softmax_cross_entropy.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/error.h"
#include "support/devices.h"
#include "support/process.h"

#ifdef AMPCTL_WITH_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include "support/captured.h"
#include "support/no_sync.h"
#endif

using namespace ampctl;
using kernels::CrossEntropyOptions;
using kernels::softmax_cross_entropy;
using kernels::softmax_cross_entropy_with_normalizers;

namespace {

constexpr at::ScalarType kDtypes[] = {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble};
constexpr double kSmoothings[] = {0.0, 0.1, 1.0};
constexpr int64_t kIgnored = -100;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

at::Tensor normal(int64_t rows, int64_t classes, uint64_t seed) {
  return at::randn({rows, classes}, at::detail::createCPUGenerator(seed), at::kDouble);
}

at::Tensor classes_below(int64_t classes, int64_t rows, uint64_t seed) {
  return at::randint(classes, {rows}, at::detail::createCPUGenerator(seed), at::kLong);
}

struct Outcome {
  at::Tensor loss;
  at::Tensor grad_logits;
};

at::Tensor grad_of(const at::Tensor& loss, const at::Tensor& logits, double grad_output) {
  return torch::autograd::grad({loss}, {logits}, {at::full_like(loss, grad_output)})[0];
}

Outcome outcome(const at::Tensor& logits, const at::Tensor& targets, const CrossEntropyOptions& options,
                double grad_output) {
  const at::Tensor x = logits.detach().set_requires_grad(true);
  const at::Tensor loss = softmax_cross_entropy(x, targets, options);
  return {loss.detach(), grad_of(loss, x, grad_output)};
}

// PyTorch's own operator on the CPU, in float64, and its gradient.
Outcome expected(const at::Tensor& logits, const at::Tensor& targets, const CrossEntropyOptions& options,
                 double grad_output) {
  const at::Tensor x = logits.detach().cpu().to(at::kDouble).set_requires_grad(true);
  const at::Tensor loss = at::cross_entropy_loss(x, targets.cpu(), {}, at::Reduction::Sum,
                                                 options.ignore_index, options.label_smoothing);
  return {loss.detach(), grad_of(loss, x, grad_output)};
}

// Half a unit in the last place of each type, doubled.
double rounding(at::ScalarType dtype) {
  if (dtype == at::kHalf) return std::ldexp(1.0, -10);
  if (dtype == at::kBFloat16) return std::ldexp(1.0, -7);
  return 5e-6;
}

// The largest error of one gradient that float32 arithmetic on numbers of about 1 explains, and float16's
// smallest step.
double smallest_step(at::ScalarType dtype, double grad_output) {
  return 3e-7 * grad_output + (dtype == at::kHalf ? std::ldexp(1.0, -24) : 0.0);
}

void check_against_stock(const at::Tensor& logits, const at::Tensor& targets,
                         const CrossEntropyOptions& options, double grad_output = 1.0) {
  INFO(logits.toString() << " " << logits.sizes() << " smoothing " << options.label_smoothing << " gradient "
                         << grad_output);
  const auto dtype = logits.scalar_type();
  const Outcome wanted = expected(logits, targets, options, grad_output);
  const Outcome found = outcome(logits, targets, options, grad_output);
  CHECK(found.loss.dim() == 0);
  CHECK(found.loss.scalar_type() == (dtype == at::kDouble ? at::kDouble : at::kFloat));
  // PyTorch's own operator on the CPU adds up in the order of the classes, and that in float32.
  const double factor = kernels::has_softmax_cross_entropy_kernel(logits) ? 1.0 : 20.0;
  const double slack = factor * 2e-6 * static_cast<double>(logits.size(0));
  CHECK(
      at::allclose(found.loss.cpu().to(at::kDouble), wanted.loss, factor * 2e-6, slack, /*equal_nan=*/true));
  CHECK(found.grad_logits.scalar_type() == dtype);
  // Rounded to the type first, so that what overflows it is infinite on both sides.
  const at::Tensor wanted_grad = wanted.grad_logits.to(dtype).to(at::kDouble);
  CHECK(at::allclose(found.grad_logits.cpu().to(at::kDouble), wanted_grad, factor * rounding(dtype),
                     factor * smallest_step(dtype, grad_output), /*equal_nan=*/true));
}

void check_sizes(c10::Device device) {
  for (const int64_t classes : {1, 2, 5, 7, 10, 257, 1000, 2047, 2048, 2051}) {
    for (const int64_t rows : {0, 1, 3, 37}) {
      const at::Tensor logits = normal(rows, classes, 1).mul(3.0);
      const at::Tensor targets = classes_below(classes, rows, 2).to(device);
      for (const auto dtype : kDtypes) {
        for (const double smoothing : kSmoothings) {
          check_against_stock(logits.to(dtype).to(device), targets, {smoothing, kIgnored});
        }
      }
    }
  }
}

void check_vocabulary(c10::Device device) {
  constexpr int64_t kVocabulary = 50257;
  const at::Tensor logits = normal(5, kVocabulary, 3).mul(3.0);
  const at::Tensor targets = classes_below(kVocabulary, 5, 4).to(device);
  for (const auto dtype : kDtypes) {
    for (const double smoothing : kSmoothings) {
      check_against_stock(logits.to(dtype).to(device), targets, {smoothing, kIgnored});
    }
  }
}

void check_magnitudes(c10::Device device) {
  constexpr int64_t kClasses = 37;
  const at::Tensor noise = normal(9, kClasses, 5);
  const at::Tensor targets = classes_below(kClasses, 9, 6).to(device);
  for (const auto dtype : kDtypes) {
    for (const double smoothing : kSmoothings) {
      const CrossEntropyOptions options{smoothing, kIgnored};
      const auto given = [&](const at::Tensor& values) { return values.to(dtype).to(device); };
      // Differences under the type's smallest, near its largest, and small ones between large numbers.
      check_against_stock(given(noise.mul(1e-30)), targets, options);
      check_against_stock(given(noise.mul(dtype == at::kHalf ? 1.6e4 : 1e35)), targets, options);
      check_against_stock(given(noise.mul(2.0).add(dtype == at::kHalf ? 2048.0 : 1e5)), targets, options);
    }
  }
}

// Rows with a -inf, a NaN or an inf, at the target and beside it, and one of -inf alone.
void check_nonfinite(c10::Device device) {
  constexpr int64_t kClasses = 11;
  for (const double value : {-kInfinity, kInfinity, kNan}) {
    for (const int64_t column : {0, 4, 10}) {
      at::Tensor logits = normal(4, kClasses, 7);
      logits.select(0, 1).select(0, column).fill_(value);
      for (const auto dtype : kDtypes) {
        for (const double smoothing : kSmoothings) {
          const CrossEntropyOptions options{smoothing, kIgnored};
          const at::Tensor x = logits.to(dtype).to(device);
          check_against_stock(x, at::full({4}, 4, at::kLong).to(device), options);
          check_against_stock(x.narrow(0, 1, 1), at::full({1}, 4, at::kLong).to(device), options);
        }
      }
    }
  }
  const at::Tensor hopeless = at::full({1, kClasses}, -kInfinity, at::kHalf).to(device);
  check_against_stock(hopeless, at::zeros({1}, at::kLong).to(device), {0.1, kIgnored});
}

void check_masked_classes(c10::Device device) {
  // Whole vectors of -inf, so that some threads see nothing else, before and behind what is possible.
  for (const int64_t classes : {1000, 5000}) {
    at::Tensor logits = at::full({2, classes}, -kInfinity, at::kDouble);
    logits.narrow(1, 300, 9).copy_(normal(2, 9, 8));
    const at::Tensor targets = at::full({2}, 303, at::kLong).to(device);
    for (const auto dtype : kDtypes) {
      check_against_stock(logits.to(dtype).to(device), targets, {0.0, kIgnored});
    }
  }
}

void check_ignored(c10::Device device) {
  constexpr int64_t kClasses = 20;
  const at::Tensor logits = normal(6, kClasses, 9);
  const at::Tensor some = at::tensor({3, -100, 0, -100, 2, 19}, at::kLong).to(device);
  const at::Tensor none = at::full({6}, -100, at::kLong).to(device);
  for (const auto dtype : kDtypes) {
    for (const double smoothing : kSmoothings) {
      const at::Tensor x = logits.to(dtype).to(device);
      check_against_stock(x, some, {smoothing, kIgnored});
      check_against_stock(x, none, {smoothing, kIgnored});
      check_against_stock(x, some.abs().fmod(kClasses), {smoothing, 2});
    }
  }
}

void check_scaled_gradients(c10::Device device) {
  const at::Tensor logits = normal(16, 10, 10);
  const at::Tensor targets = classes_below(10, 16, 11).to(device);
  constexpr double kScale = 65536.0;
  for (const double smoothing : kSmoothings) {
    check_against_stock(logits.to(at::kHalf).to(device), targets, {smoothing, kIgnored}, kScale);
  }
  // A target without a chance: its gradient, -65536, is beyond float16 and must come out infinite.
  at::Tensor wrong = at::zeros({1, 10}, at::kHalf);
  wrong.select(1, 3).fill_(-30.0);
  const at::Tensor grad =
      outcome(wrong.to(device), at::full({1}, 3, at::kLong).to(device), {0.0, kIgnored}, kScale).grad_logits;
  CHECK(grad[0][3].item<double>() == -kInfinity);
  CHECK(grad[0][0].item<double>() == Approx(kScale / 9).epsilon(1e-3));
}

void check_layouts(c10::Device device) {
  const at::Tensor values = normal(12, 40, 12);
  const at::Tensor targets = classes_below(40, 24, 13).to(device).slice(0, 0, 24, 2);
  for (const auto dtype : kDtypes) {
    const at::Tensor given = values.to(dtype).to(device);
    const at::Tensor buffer = at::full({12 * 40 + 1}, kNan, given.options());
    const at::Tensor shifted = buffer.narrow(0, 1, 12 * 40).view({12, 40}).copy_(given);
    check_against_stock(shifted, targets, {0.1, kIgnored});
    const at::Tensor transposed = given.t().contiguous().t();
    CHECK_FALSE(kernels::has_softmax_cross_entropy_kernel(transposed));
    check_against_stock(transposed, targets, {0.1, kIgnored});
    check_against_stock(at::cat({given, given}, 1).narrow(1, 7, 40), targets, {0.1, kIgnored});
  }
}

void check_normalizers(c10::Device device) {
  for (const int64_t classes : {10, 3000}) {
    const at::Tensor logits = normal(7, classes, 14).mul(4.0);
    for (const auto dtype : kDtypes) {
      const at::Tensor x = logits.to(dtype).to(device);
      const auto found =
          softmax_cross_entropy_with_normalizers(x, classes_below(classes, 7, 15).to(device), {});
      const at::Tensor wide = x.cpu().to(at::kDouble);
      const at::Tensor largest = wide.amax(1);
      const at::Tensor log_sums = wide.sub(largest.unsqueeze(1)).exp().sum(1).log();
      const at::Tensor normalizers = found.normalizers.cpu().to(at::kDouble);
      CHECK(at::equal(normalizers.select(1, 0), largest));
      CHECK(at::allclose(normalizers.select(1, 1), log_sums, 1e-6, 1e-6));
      CHECK_FALSE(found.normalizers.requires_grad());
    }
  }
}

void check_second_derivative(c10::Device device) {
  const at::Tensor targets = at::tensor({3, -100, 0, 1}, at::kLong).to(device);
  const auto twice = [&](bool stock) {
    const at::Tensor x = normal(4, 6, 16).to(device, at::kFloat).set_requires_grad(true);
    const CrossEntropyOptions options{0.1, kIgnored};
    const at::Tensor loss = stock ? softmax_cross_entropy_reference(x, targets, options)
                                  : softmax_cross_entropy_with_normalizers(x, targets, options).loss;
    const at::Tensor first = torch::autograd::grad({loss.square()}, {x}, {}, /*retain_graph=*/true,
                                                   /*create_graph=*/true)[0];
    return torch::autograd::grad({first.square().sum()}, {x})[0];
  };
  CHECK(at::allclose(twice(false), twice(true), 1e-4, 1e-4));
}

void check_autocast(c10::Device device) {
  const at::Tensor logits = normal(4, 6, 17).to(device, at::kHalf).set_requires_grad(true);
  const at::Tensor targets = classes_below(6, 4, 18).to(device);
  at::autocast::set_autocast_enabled(device.type(), true);
  const at::Tensor loss = softmax_cross_entropy(logits, targets, {});
  at::autocast::set_autocast_enabled(device.type(), false);
  CHECK(loss.scalar_type() == at::kFloat);
  CHECK(grad_of(loss, logits, 1.0).scalar_type() == at::kHalf);
}

}  // namespace

AMPCTL_DEVICE_TEST_CASE(check_sizes, "Softmax cross-entropy equals PyTorch's for any number of classes")
AMPCTL_DEVICE_TEST_CASE(check_vocabulary, "Softmax cross-entropy equals PyTorch's over a large vocabulary")
AMPCTL_DEVICE_TEST_CASE(check_magnitudes, "Softmax cross-entropy keeps its digits for huge and tiny logits")
AMPCTL_DEVICE_TEST_CASE(check_nonfinite, "Infs and NaNs pass through the loss and its gradient as in PyTorch")
AMPCTL_DEVICE_TEST_CASE(check_masked_classes, "Classes masked by -inf have no part in the loss")
AMPCTL_DEVICE_TEST_CASE(check_ignored, "Samples with ignore_index count for nothing")
AMPCTL_DEVICE_TEST_CASE(check_scaled_gradients,
                        "A loss scale reaches float16 gradients, and what overflows is infinite")
AMPCTL_DEVICE_TEST_CASE(check_layouts, "Logits that begin at any address or have gaps give the same loss")
AMPCTL_DEVICE_TEST_CASE(check_normalizers, "The normalizers are each row's largest logit and log of the sum")
AMPCTL_DEVICE_TEST_CASE(check_second_derivative, "Softmax cross-entropy has a second derivative")
AMPCTL_DEVICE_TEST_CASE(check_autocast, "Autocast leaves the dtype of the logits alone, the loss is float32")

TEST_CASE("Softmax cross-entropy refuses what is no row of logits with a class for each") {
  const at::Tensor logits = at::zeros({4, 3});
  const at::Tensor targets = at::zeros({4}, at::kLong);
  CHECK_THROWS_AS(softmax_cross_entropy(logits[0], targets, {}), Error);
  CHECK_THROWS_AS(softmax_cross_entropy(at::zeros({4, 0}), targets, {}), Error);
  CHECK_THROWS_AS(softmax_cross_entropy(logits.to(at::kLong), targets, {}), Error);
  CHECK_THROWS_AS(softmax_cross_entropy(logits, targets.narrow(0, 0, 3), {}), Error);
  CHECK_THROWS_AS(softmax_cross_entropy(logits, targets.to(at::kInt), {}), Error);
  CHECK_THROWS_AS(softmax_cross_entropy(logits, targets, {-0.1, kIgnored}), Error);
  CHECK_THROWS_AS(softmax_cross_entropy(logits, targets, {1.1, kIgnored}), Error);
  CHECK_THROWS_AS(softmax_cross_entropy(logits, targets, {kNan, kIgnored}), Error);
  CHECK_NOTHROW(softmax_cross_entropy(logits, targets, {}));
}

#ifdef AMPCTL_WITH_CUDA
TEST_CASE("Softmax cross-entropy repeats bit for bit", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  for (const int64_t classes : {1000, 50257}) {
    const at::Tensor x = normal(300, classes, 19).to(at::kCUDA, at::kHalf);
    const at::Tensor targets = classes_below(classes, 300, 20).to(at::kCUDA);
    const Outcome first = outcome(x, targets, {0.1, kIgnored}, 1.0);
    for (int i = 0; i < 5; ++i) {
      const Outcome again = outcome(x, targets, {0.1, kIgnored}, 1.0);
      CHECK(at::equal(again.loss, first.loss));
      CHECK(at::equal(again.grad_logits, first.grad_logits));
    }
  }
}

TEST_CASE("Softmax cross-entropy keeps nothing for backward but the logits and two numbers a row", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  constexpr int64_t kRows = 256;
  const at::Tensor x = normal(kRows, 5000, 26).to(at::kCUDA, at::kHalf).set_requires_grad(true);
  const at::Tensor targets = classes_below(5000, kRows, 27).to(at::kCUDA);
  CHECK(kernels::has_softmax_cross_entropy_kernel(x));
  const auto allocated = [] {
    return c10::cuda::CUDACachingAllocator::getDeviceStats(0).allocated_bytes[0].current;
  };
  const auto before = allocated();
  const at::Tensor loss = softmax_cross_entropy(x, targets, {});
  constexpr int64_t kSmallestBlock = 512;  // of the allocator: what the loss itself takes
  CHECK(allocated() - before == kRows * 2 * static_cast<int64_t>(sizeof(float)) + kSmallestBlock);
}

TEST_CASE("The gradient of a sample with ignore_index is 0 even if its logits are not finite", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  at::Tensor logits = normal(2, 9, 21).to(at::kCUDA, at::kHalf);
  logits[1].fill_(kNan);
  const Outcome found = outcome(logits, at::tensor({1, -100}, at::kLong).to(at::kCUDA), {0.1, kIgnored}, 1.0);
  CHECK(found.loss.isfinite().item<bool>());
  CHECK(found.grad_logits[1].eq(0).all().item<bool>());
}

TEST_CASE("Softmax cross-entropy reads nothing on the host and replays in a CUDA graph", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  at::Tensor logits = normal(33, 1000, 22).to(at::kCUDA, at::kHalf);
  const at::Tensor targets = classes_below(1000, 33, 23).to(at::kCUDA);
  const at::Tensor other = normal(33, 1000, 24).to(at::kCUDA, at::kHalf);
  const at::Tensor others = classes_below(1000, 33, 25).to(at::kCUDA);
  const CrossEntropyOptions options{0.1, kIgnored};
  Outcome found;
  const auto run = [&] { found = outcome(logits, targets, options, 2.0); };
  {
    const test::NoSync no_sync;
    CHECK_NOTHROW(run());
  }
  test::Captured graph(run);
  logits.copy_(other);
  targets.copy_(others);
  graph.replay();
  const Outcome eager = outcome(other, others, options, 2.0);
  CHECK(at::equal(found.loss, eager.loss));
  CHECK(at::equal(found.grad_logits, eager.grad_logits));
}

// Hidden: the assertion ends the process's use of the GPU, so the test below runs this in one of its own.
TEST_CASE("Out of range", "[.out_of_range]") {
  const at::Tensor logits = at::zeros({4, 3}, at::TensorOptions(at::kCUDA).dtype(at::kHalf));
  softmax_cross_entropy(logits, at::tensor({0, 1, 3, 2}, at::kLong).to(at::kCUDA), {});
  c10::cuda::device_synchronize();
}

TEST_CASE("A target that is no class stops the kernel with an assertion that says so",
          "[gpu][device_assert]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const auto ended = test::run({"/proc/self/exe", "[.out_of_range]"});
  INFO(ended.out << ended.err);
  CHECK(ended.exit_code != 0);
  CHECK((ended.out + ended.err).find("targets are classes or ignore_index") != std::string::npos);
  CHECK((ended.out + ended.err).find("device-side assert") != std::string::npos);
}
#endif
