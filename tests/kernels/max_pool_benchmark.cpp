// Hidden: runs only when asked for by its tag, [benchmark].
#ifdef AMPCTL_WITH_CUDA
#include <functional>
#include <iostream>
#include <string>

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/max_pool.h"
#include "support/catch.h"
#include "support/gpu_time.h"
#include "support/skip.h"

using namespace ampctl;

namespace {

void print(const std::string& name, float forward, float backward) {
  std::cout << name << ": forward " << forward << " ms, backward " << backward << " ms" << std::endl;
}

void compare(at::ScalarType dtype, int64_t batch) {
  const at::Tensor x = at::randn({batch, 64, 112, 112}, at::TensorOptions(at::kCUDA).dtype(dtype))
                           .relu_()
                           .contiguous(at::MemoryFormat::ChannelsLast)
                           .set_requires_grad(true);
  const auto measure = [&](const std::string& name, const std::function<at::Tensor()>& pool) {
    const float forward = test::device_milliseconds([&] { pool(); });
    const at::Tensor output = pool();
    const at::Tensor grad = at::randn_like(output);
    const float backward = test::device_milliseconds(
        [&] { torch::autograd::grad({output}, {x}, {grad}, /*retain_graph=*/true); });
    print(std::string(c10::toString(dtype)) + " batch " + std::to_string(batch) + " " + name, forward,
          backward);
  };
  measure("ampctl", [&] { return kernels::max_pool2d(x, {3, 2, 1}); });
  measure("PyTorch", [&] { return at::max_pool2d(x, 3, 2, 1); });
}

}  // namespace

TEST_CASE("Time of max pooling in ResNet-50's stem beside PyTorch's", "[.benchmark]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
  compare(at::kHalf, 256);
  compare(at::kBFloat16, 256);
  compare(at::kFloat, 256);
  compare(at::kHalf, 16);
}
#endif
