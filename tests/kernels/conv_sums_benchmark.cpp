// Hidden: runs only when asked for by its tag, [benchmark].
#ifdef AMPCTL_WITH_CUDA
#include <cstdio>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDAGuard.h>

#include "batch_norm_fixture.h"
#include "kernels/conv_sums.h"
#include "support/catch.h"
#include "support/cudnn_benchmark.h"
#include "support/gpu_time.h"
#include "support/skip.h"

using namespace ampctl;

namespace {

struct Conv {
  int64_t in_channels, size, out_channels, kernel, stride;
  int count;  // in ResNet-50
};

const std::vector<Conv> kConvs{
    {64, 56, 64, 1, 1, 1},    {64, 56, 64, 3, 1, 3},    {64, 56, 256, 1, 1, 4},   {256, 56, 64, 1, 1, 2},
    {256, 56, 128, 1, 1, 1},  {128, 56, 128, 3, 2, 1},  {128, 28, 512, 1, 1, 4},  {256, 56, 512, 1, 2, 1},
    {512, 28, 128, 1, 1, 3},  {128, 28, 128, 3, 1, 3},  {512, 28, 256, 1, 1, 1},  {256, 28, 256, 3, 2, 1},
    {256, 14, 1024, 1, 1, 6}, {512, 28, 1024, 1, 2, 1}, {1024, 14, 256, 1, 1, 5}, {256, 14, 256, 3, 1, 5},
    {1024, 14, 512, 1, 1, 1}, {512, 14, 512, 3, 2, 1},  {512, 7, 2048, 1, 1, 3},  {1024, 14, 2048, 1, 2, 1},
    {2048, 7, 512, 1, 1, 2},  {512, 7, 512, 3, 1, 2}};

void measure(int64_t batch, at::ScalarType dtype) {
  const at::NoGradGuard no_grad;
  double stock_sum = 0;
  double sum = 0;
  for (const auto& c : kConvs) {
    const at::Tensor input =
        at::randn({batch, c.in_channels, c.size, c.size}, at::TensorOptions(at::kCUDA).dtype(dtype))
            .contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor weight =
        (at::randn({c.out_channels, c.in_channels, c.kernel, c.kernel}, input.options()) * 0.05)
            .contiguous(at::MemoryFormat::ChannelsLast);
    const int64_t padding = c.kernel / 2;
    auto inputs = test::batch_norm_inputs(c.out_channels, dtype, at::kCUDA);
    const auto norm = [&](const kernels::Convolved& x) {
      inputs.sums = x.sums;
      kernels::batch_norm_act(x.output, inputs, true);
    };
    const double stock = test::device_milliseconds([&] {
      norm({at::conv2d(input, weight, {}, c.stride, padding), {}});
    });
    bool has_sums = false;
    const double own = test::device_milliseconds([&] {
      const auto x = kernels::conv2d_sums(input, weight, {c.stride, c.stride}, {padding, padding});
      has_sums = x.sums.defined();
      norm(x);
    });
    stock_sum += stock * c.count;
    sum += own * c.count;
    std::printf("%4ld x %3ld^2 -> %4ld, %ldx%ld / %ld: %7.4f ms, with sums %7.4f ms%s\n", c.in_channels,
                c.size, c.out_channels, c.kernel, c.kernel, c.stride, stock, own, has_sums ? "" : " (none)");
  }
  std::printf("convolution, batch norm and ReLU, batch %ld, %s: %.3f ms, with sums %.3f ms\n", batch,
              c10::toString(dtype), stock_sum, sum);
}

}  // namespace

TEST_CASE("Convolutions of ResNet-50 with and without sums for batch norm", "[.][benchmark]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
  const test::CudnnBenchmark benchmark;
  measure(256, at::kHalf);
  measure(256, at::kBFloat16);
  measure(16, at::kHalf);
}
#endif
