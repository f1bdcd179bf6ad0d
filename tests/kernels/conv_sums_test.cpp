#include "kernels/conv_sums.h"

#include <array>
#include <cmath>
#include <vector>

#include "batch_norm_fixture.h"
#include "support/catch.h"
#include "support/cudnn_benchmark.h"
#include "support/skip.h"

#ifdef AMPCTL_WITH_CUDNN
#include <ATen/cudnn/Handle.h>

#include "kernels/conv_sums_plan.h"
#endif

using namespace ampctl;

namespace {

struct Case {
  test::ImageShape input;
  int64_t out_channels, kernel, stride;

  [[nodiscard]] int64_t padding() const { return kernel / 2; }
};

const std::vector<Case> kCases{{{2, 64, 14, 14}, 128, 1, 1}, {{3, 64, 13, 11}, 64, 3, 1},
                               {{2, 128, 15, 15}, 64, 3, 2}, {{2, 64, 14, 14}, 256, 1, 2},
                               {{1, 256, 7, 7}, 512, 1, 1},  {{5, 8, 9, 9}, 24, 3, 1}};

at::Tensor weight_of(const Case& c, at::ScalarType dtype) {
  const double scale = std::sqrt(1.0 / static_cast<double>(c.input.channels * c.kernel * c.kernel));
  const at::Tensor drawn =
      test::random_images({c.out_channels, c.input.channels, c.kernel, c.kernel}, at::kDouble, 7) * scale;
  return drawn.to(dtype).contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor sums_of(const at::Tensor& output) {
  constexpr std::array<int64_t, 3> kRows{0, 2, 3};
  return at::stack({output.sum(kRows), output.square().sum(kRows)});
}

}  // namespace

TEST_CASE("On the CPU a convolution with sums is the convolution, and hands on no sums") {
  for (const auto& c : kCases) {
    const at::Tensor input = test::random_images(c.input, at::kFloat, 1);
    const at::Tensor weight = weight_of(c, at::kFloat);
    const auto found = kernels::conv2d_sums(input, weight, {c.stride, c.stride}, {c.padding(), c.padding()});
    CHECK(at::equal(found.output, at::conv2d(input, weight, {}, c.stride, c.padding())));
    CHECK_FALSE(found.sums.defined());
  }
}

TEST_CASE("A convolution with sums has PyTorch's output and gradients", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const test::CudnnBenchmark benchmark;
  for (const auto dtype : {at::kHalf, at::kBFloat16}) {
    for (const auto& c : kCases) {
      INFO(c.input.channels << " to " << c.out_channels << ", kernel " << c.kernel << ", " << dtype);
      const at::Tensor input = test::random_images(c.input, dtype, 1).cuda().set_requires_grad(true);
      const at::Tensor weight = weight_of(c, dtype).cuda().set_requires_grad(true);
      const auto found =
          kernels::conv2d_sums(input, weight, {c.stride, c.stride}, {c.padding(), c.padding()});
      const at::Tensor x = test::in_float64(input).set_requires_grad(true);
      const at::Tensor w = test::in_float64(weight).set_requires_grad(true);
      const at::Tensor wanted = at::conv2d(x, w, {}, c.stride, c.padding());
      CHECK(found.output.scalar_type() == dtype);
      CHECK(found.output.is_contiguous(at::MemoryFormat::ChannelsLast));
      CHECK(test::relative_error(found.output, wanted) < test::rounding(dtype));
      const at::Tensor grad =
          test::random_images({wanted.size(0), wanted.size(1), wanted.size(2), wanted.size(3)}, dtype, 3);
      const auto grads = torch::autograd::grad({found.output}, {input, weight}, {grad.cuda()});
      const auto expected = torch::autograd::grad({wanted}, {x, w}, {grad.to(at::kDouble)});
      CHECK(test::relative_error(grads[0], expected[0]) < 2 * test::rounding(dtype));
      CHECK(test::relative_error(grads[1], expected[1]) < 2 * test::rounding(dtype));
      if (found.sums.defined()) {
        CHECK_FALSE(found.sums.requires_grad());
        CHECK(test::relative_error(found.sums[1], sums_of(wanted)[1]) < 1e-3);
      }
    }
  }
}

TEST_CASE("Convolutions are not measured where algorithms must be deterministic", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const auto& c = kCases[0];
  const at::Tensor input = test::random_images(c.input, at::kHalf, 1).cuda();
  const at::Tensor weight = weight_of(c, at::kHalf).cuda();
  CHECK_FALSE(kernels::may_have_conv_sums(input, weight));
  const test::CudnnBenchmark benchmark;
  at::globalContext().setDeterministicCuDNN(true);
  CHECK_FALSE(kernels::may_have_conv_sums(input, weight));
  at::globalContext().setDeterministicCuDNN(false);
#ifdef AMPCTL_WITH_CUDNN
  CHECK(kernels::may_have_conv_sums(input, weight));
#endif
  CHECK_FALSE(kernels::may_have_conv_sums(input.to(at::kFloat), weight.to(at::kFloat)));
  CHECK_FALSE(kernels::may_have_conv_sums(input.contiguous(), weight));
}

#ifdef AMPCTL_WITH_CUDNN
TEST_CASE("Every plan of cuDNN for a convolution with sums gives both", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  for (const auto dtype : {at::kHalf, at::kBFloat16}) {
    size_t plans = 0;
    for (const auto& c : kCases) {
      INFO(c.input.channels << " to " << c.out_channels << ", kernel " << c.kernel << ", " << dtype);
      const at::Tensor input = test::random_images(c.input, dtype, 1).cuda();
      const at::Tensor weight = weight_of(c, dtype).cuda();
      const at::Tensor wanted =
          at::conv2d(test::in_float64(input), test::in_float64(weight), {}, c.stride, c.padding());
      const auto sizes = [](const at::Tensor& t) {
        return std::array<int64_t, 4>{t.size(0), t.size(1), t.size(2), t.size(3)};
      };
      const kernels::ConvSumsProblem problem{dtype == at::kHalf ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16,
                                             sizes(input),
                                             sizes(weight),
                                             sizes(wanted),
                                             {c.stride, c.stride},
                                             {c.padding(), c.padding()}};
      auto* handle = at::native::getCudnnHandle();
      for (const auto& plan : kernels::ConvSumsPlan::find(handle, problem, 6, int64_t{1} << 28)) {
        ++plans;
        const at::Tensor output =
            at::full(wanted.sizes(), 7, input.options()).contiguous(at::MemoryFormat::ChannelsLast);
        const at::Tensor sums = at::full({2, c.out_channels}, 7, input.options().dtype(at::kFloat));
        const at::Tensor workspace = at::empty({plan.workspace_bytes()}, input.options().dtype(at::kByte));
        auto* first = sums.data_ptr<float>();
        plan.run(handle, {input.data_ptr(), weight.data_ptr(), output.data_ptr(), first,
                          first + c.out_channels, workspace.data_ptr()});
        CHECK(test::relative_error(output, wanted) < test::rounding(dtype));
        const at::Tensor expected = sums_of(wanted);
        const at::Tensor error = (test::in_float64(sums) - expected).abs();
        // Sums cancel: what counts is the size of what is summed.
        const int64_t values = wanted.numel() / c.out_channels;
        const at::Tensor count = (expected[1] * static_cast<double>(values)).sqrt();
        CHECK((error[0] / count).max().item<double>() < test::rounding(dtype));
        CHECK((error[1] / expected[1]).max().item<double>() < 2 * test::rounding(dtype));
      }
    }
    CHECK(plans > 0);
  }
}
#endif
