// Hidden: runs only when asked for by its tag, [benchmark].
#ifdef AMPCTL_WITH_CUDA
#include <functional>
#include <iostream>
#include <string>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/softmax_cross_entropy.h"
#include "support/catch.h"
#include "support/gpu_time.h"
#include "support/skip.h"

using namespace ampctl;

namespace {

void compare(at::ScalarType dtype, int64_t rows, int64_t classes) {
  const auto options = at::TensorOptions(at::kCUDA);
  const at::Tensor logits = at::randn({rows, classes}, options.dtype(dtype)).set_requires_grad(true);
  const at::Tensor targets = at::randint(classes, {rows}, options.dtype(at::kLong));
  const kernels::CrossEntropyOptions smoothed{.label_smoothing = 0.1};
  const auto measure = [&](const std::string& name, const std::function<at::Tensor()>& loss) {
    const float forward = test::device_milliseconds([&] { loss(); });
    const at::Tensor value = loss();
    const at::Tensor grad = at::ones_like(value);
    const float backward = test::device_milliseconds(
        [&] { torch::autograd::grad({value}, {logits}, {grad}, /*retain_graph=*/true); });
    std::cout << c10::toString(dtype) << " " << rows << " x " << classes << " " << name << ": forward "
              << forward << " ms, backward " << backward << " ms" << std::endl;
  };
  measure("ampctl", [&] { return kernels::softmax_cross_entropy(logits, targets, smoothed); });
  measure("PyTorch", [&] { return kernels::softmax_cross_entropy_reference(logits, targets, smoothed); });
}

}  // namespace

TEST_CASE("Time of softmax cross-entropy beside PyTorch's", "[.benchmark]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  compare(at::kHalf, 256, 1000);
  compare(at::kBFloat16, 8192, 50257);
  compare(at::kFloat, 8192, 50257);
}
#endif
