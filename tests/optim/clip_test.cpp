#include "optim/clip.h"

#include <cmath>

#include <ATen/ATen.h>

#include "support/devices.h"

#ifdef AMPCTL_WITH_CUDA
#include "support/no_sync.h"
#endif

using namespace ampctl;

namespace {

at::Tensor scalar(double value, c10::Device device) {
  return at::full({}, value, at::TensorOptions(device).dtype(at::kFloat));
}

// 3, 4 and 12: norm 13.
std::vector<at::Tensor> grads(c10::Device device, double factor = 1.0) {
  const at::TensorOptions options(device);
  return {at::full({1}, 3.0 * factor, options), at::full({1, 1}, 4.0 * factor, options.dtype(at::kDouble)),
          at::Tensor(), at::full({}, 12.0 * factor, options)};
}

void check_norm(c10::Device device) {
  CHECK(optim::grad_norm(grads(device), {}).item<float>() == 13.0F);
  const at::Tensor scaled = optim::grad_norm(grads(device, 1024.0), scalar(1024.0, device));
  CHECK(scaled.item<float>() == 13.0F);
  CHECK(scaled.scalar_type() == at::kFloat);
  CHECK(scaled.dim() == 0);
  // 3e30 squared is beyond float32.
  CHECK(optim::grad_norm(grads(device, 1e30), {}).item<float>() == Approx(13e30));
  const std::vector<at::Tensor> half{at::full({10000}, 300.0, at::TensorOptions(device).dtype(at::kHalf))};
  CHECK(optim::grad_norm(half, {}).item<float>() == 30000.0F);
}

void check_coefficient(c10::Device device) {
  // torch.nn.utils.clip_grad_norm_: max_norm / (norm + 1e-6), at most 1.
  CHECK(optim::clip_coefficient(scalar(4.0, device), 1.0).item<float>() == Approx(1.0 / 4.000001));
  CHECK(optim::clip_coefficient(scalar(0.5, device), 1.0).item<float>() == 1.0F);
  CHECK(optim::clip_coefficient(scalar(0.0, device), 1.0).item<float>() == 1.0F);
  CHECK(optim::clip_coefficient(scalar(INFINITY, device), 1.0).item<float>() == 0.0F);
}

void check_scaling(c10::Device device) {
  const auto list = grads(device);
  optim::scale_(list, scalar(0.5, device));
  CHECK(list[0].item<float>() == 1.5F);
  CHECK(list[1].item<double>() == 2.0);
  CHECK(list[3].item<float>() == 6.0F);
}

void check_clipping_by_value(c10::Device device) {
  const at::Tensor grad = at::tensor({-3.0F, -0.5F, 0.0F, 0.5F, 3.0F}).to(device);
  optim::clip_grad_value_({grad, at::Tensor()}, 1.0);
  CHECK(at::equal(grad.cpu(), at::tensor({-1.0F, -0.5F, 0.0F, 0.5F, 1.0F})));
}

}  // namespace

AMPCTL_DEVICE_TEST_CASE(check_norm,
                        "The gradient norm is unscaled, joins dtypes and does not overflow on the way")
AMPCTL_DEVICE_TEST_CASE(check_coefficient, "The clipping coefficient is max_norm / (norm + 1e-6), at most 1")
AMPCTL_DEVICE_TEST_CASE(check_scaling, "Gradients are scaled in place")
AMPCTL_DEVICE_TEST_CASE(check_clipping_by_value, "Clipping by value bounds each element on both sides")

#ifdef AMPCTL_WITH_CUDA
TEST_CASE("Clipping reads nothing on the host", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const c10::Device device(at::kCUDA, 0);
  const auto list = grads(device);
  const at::Tensor scale = scalar(2.0, device);
  const test::NoSync no_sync;
  const at::Tensor coefficient = optim::clip_coefficient(optim::grad_norm(list, scale), 1.0);
  CHECK_NOTHROW(optim::scale_(list, coefficient));
  CHECK_NOTHROW(optim::clip_grad_value_(list, 0.1));
}
#endif
