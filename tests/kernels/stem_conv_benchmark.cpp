// Hidden: runs only when asked for by its tag, [benchmark].
#ifdef AMPCTL_WITH_CUDA
#include <functional>
#include <iostream>
#include <string>

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/stem_conv.h"
#include "support/catch.h"
#include "support/gpu_time.h"
#include "support/skip.h"

using namespace ampctl;

namespace {

void compare(at::ScalarType input_type, at::ScalarType compute, int64_t batch) {
  const at::Tensor x = at::randn({batch, 3, 224, 224}, at::TensorOptions(at::kCUDA).dtype(input_type))
                           .contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor weight = at::randn({64, 3, 7, 7}, at::TensorOptions(at::kCUDA).dtype(compute))
                                .mul_(0.1)
                                .contiguous(at::MemoryFormat::ChannelsLast)
                                .set_requires_grad(true);
  const auto measure = [&](const std::string& name, const std::function<at::Tensor()>& convolve) {
    const float forward = test::device_milliseconds([&] { convolve(); });
    const at::Tensor output = convolve();
    const at::Tensor grad = at::randn_like(output);
    const float backward = test::device_milliseconds(
        [&] { torch::autograd::grad({output}, {weight}, {grad}, /*retain_graph=*/true); });
    std::cout << c10::toString(input_type) << " to " << c10::toString(compute) << " batch " << batch << " "
              << name << ": forward " << forward << " ms, backward " << backward << " ms" << std::endl;
  };
  measure("ampctl", [&] { return kernels::stem_conv(x, weight).output; });
  // The cast is what autocast adds.
  measure("PyTorch", [&] { return at::conv2d(x.to(compute), weight, {}, {2, 2}, {3, 3}); });
}

}  // namespace

TEST_CASE("Time of ResNet-50's first convolution beside PyTorch's", "[.benchmark]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
  at::globalContext().setBenchmarkCuDNN(true);
  for (const auto compute : {at::kHalf, at::kBFloat16}) {
    compare(at::kFloat, compute, 256);
    compare(compute, compute, 256);
    compare(at::kFloat, compute, 32);
  }
  at::globalContext().setBenchmarkCuDNN(false);
}
#endif
