#include "amp/precision.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "support/catch.h"
#include "support/skip.h"

using namespace ampctl;
using amp::DeviceFacts;
using amp::Support;
using config::Precision;

TEST_CASE("Compute capability decides what a GPU does natively") {
  struct Row {
    DeviceFacts device;
    Support tf32, float16, bfloat16;
  };
  // CUDA C++ Programming Guide: 5.3 brings half arithmetic, 7.0 tensor cores, 8.0 TF32 and bfloat16.
  const std::vector<Row> rows{
      {{false, 0, 0}, Support::absent, Support::emulated, Support::emulated},
      {{true, 5, 2}, Support::absent, Support::absent, Support::emulated},
      {{true, 5, 3}, Support::absent, Support::emulated, Support::emulated},
      {{true, 6, 1}, Support::absent, Support::emulated, Support::emulated},
      {{true, 7, 0}, Support::absent, Support::native, Support::emulated},
      {{true, 7, 5}, Support::absent, Support::native, Support::emulated},
      {{true, 8, 0}, Support::native, Support::native, Support::native},
      {{true, 9, 0}, Support::native, Support::native, Support::native},
      {{true, 12, 0}, Support::native, Support::native, Support::native},
  };
  for (const auto& row : rows) {
    INFO("capability " << row.device.major << "." << row.device.minor << ", CUDA " << row.device.is_cuda);
    CHECK(amp::support(Precision::float32, row.device) == Support::native);
    CHECK(amp::support(Precision::tf32, row.device) == row.tf32);
    CHECK(amp::support(Precision::float16, row.device) == row.float16);
    CHECK(amp::support(Precision::bfloat16, row.device) == row.bfloat16);
  }
}

TEST_CASE("A precision that the device lacks is refused, an emulated one warned about") {
  CHECK_FALSE(amp::check_precision(Precision::bfloat16, {true, 8, 0}));
  const auto warning = amp::check_precision(Precision::bfloat16, {true, 7, 5});
  REQUIRE(warning);
  CHECK(warning->find("7.5") != std::string::npos);
  CHECK(warning->find("amp.dtype: float16") != std::string::npos);
  try {
    static_cast<void>(amp::check_precision(Precision::tf32, {true, 7, 5}));
    FAIL("TF32 was accepted");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::environment);
    CHECK(std::string(error.what()).find("8.0") != std::string::npos);
    CHECK(std::string(error.what()).find("amp.dtype: float32") != std::string::npos);
  }
  CHECK_THROWS_AS(amp::check_precision(Precision::tf32, DeviceFacts{}), Error);
  CHECK_THROWS_AS(amp::check_precision(Precision::float16, {true, 5, 2}), Error);
}

TEST_CASE("Autocast runs for the 16-bit precisions alone") {
  CHECK(amp::autocast_dtype(Precision::float16) == c10::kHalf);
  CHECK(amp::autocast_dtype(Precision::bfloat16) == c10::kBFloat16);
  CHECK_FALSE(amp::autocast_dtype(Precision::float32));
  CHECK_FALSE(amp::autocast_dtype(Precision::tf32));
}

TEST_CASE("Backend flags reach LibTorch") {
  auto& context = at::globalContext();
  for (const bool tf32 : {true, false}) {
    amp::apply({.allow_tf32 = tf32, .cudnn_benchmark = true});
    const auto expected = tf32 ? at::Float32Precision::TF32 : at::Float32Precision::IEEE;
    for (const auto op : {at::Float32Op::MATMUL, at::Float32Op::CONV, at::Float32Op::RNN}) {
      CHECK(context.float32Precision(at::Float32Backend::CUDA, op) == expected);
    }
    CHECK(context.benchmarkCuDNN());
    CHECK_FALSE(context.deterministicCuDNN());
    CHECK_FALSE(context.deterministicAlgorithms());
  }
  amp::apply({.cudnn_benchmark = true, .deterministic = true});
  CHECK_FALSE(context.benchmarkCuDNN());
  CHECK(context.deterministicCuDNN());
  CHECK(context.deterministicAlgorithms());
  CHECK(context.deterministicAlgorithmsWarnOnly());
  amp::apply({});
}

TEST_CASE("TF32 changes matrix products and convolutions, and only when allowed", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  if (amp::support(Precision::tf32, amp::device_facts(c10::Device(c10::kCUDA, 0))) != Support::native) {
    return test::skip("the GPU has no TF32");
  }
  const at::Tensor matrix = at::rand({256, 256}, at::kCUDA);
  const at::Tensor image = at::rand({4, 64, 16, 16}, at::kCUDA);
  const at::Tensor weight = at::rand({64, 64, 3, 3}, at::kCUDA);
  const at::Tensor exact_product = at::mm(matrix.to(at::kDouble), matrix.to(at::kDouble));
  const at::Tensor exact_convolution = at::conv2d(image.to(at::kDouble), weight.to(at::kDouble));
  const auto error = [](const at::Tensor& value, const at::Tensor& exact) {
    return ((value - exact).norm() / exact.norm()).item<double>();
  };
  // TF32 keeps 10 bits of the mantissa, float32 23: relative errors of some 1e-4 and 1e-7.
  const double border = 5e-6;
  amp::apply({.allow_tf32 = true});
  CHECK(error(at::mm(matrix, matrix), exact_product) > border);
  CHECK(error(at::conv2d(image, weight), exact_convolution) > border);
  amp::apply({.allow_tf32 = false});
  CHECK(error(at::mm(matrix, matrix), exact_product) < border);
  CHECK(error(at::conv2d(image, weight), exact_convolution) < border);
  amp::apply({});
}
