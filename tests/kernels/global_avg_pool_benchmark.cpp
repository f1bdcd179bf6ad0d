// Hidden: runs only when asked for by its tag, [benchmark].
#ifdef AMPCTL_WITH_CUDA
#include <functional>
#include <iostream>
#include <string>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/global_avg_pool.h"
#include "support/catch.h"
#include "support/gpu_time.h"
#include "support/skip.h"

using namespace ampctl;

TEST_CASE("Time of global average pooling at ResNet-50's end beside PyTorch's", "[.benchmark]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const at::Tensor x = at::randn({256, 2048, 7, 7}, at::TensorOptions(at::kCUDA).dtype(at::kHalf))
                           .contiguous(at::MemoryFormat::ChannelsLast)
                           .set_requires_grad(true);
  const auto measure = [&](const std::string& name, const std::function<at::Tensor()>& pool) {
    const float forward = test::device_milliseconds([&] { pool(); });
    const at::Tensor output = pool();
    const at::Tensor grad = at::randn_like(output);
    // The layer before wants its gradient in channels_last.
    const float backward = test::device_milliseconds([&] {
      torch::autograd::grad({output}, {x}, {grad}, /*retain_graph=*/true)[0].contiguous(
          at::MemoryFormat::ChannelsLast);
    });
    std::cout << "256 x 2048 x 7 x 7 " << name << ": forward " << forward << " ms, backward " << backward
              << " ms" << std::endl;
  };
  measure("ampctl", [&] { return kernels::global_avg_pool2d(x); });
  measure("PyTorch", [&] { return at::adaptive_avg_pool2d(x, {1, 1}); });
}
#endif
