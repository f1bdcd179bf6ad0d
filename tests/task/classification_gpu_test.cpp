#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <c10/cuda/CUDAFunctions.h>
#include <torch/csrc/autograd/function.h>

#include "support/catch.h"
#include "support/skip.h"
#include "task/classification.h"

using namespace ampctl;

TEST_CASE("Loss and metrics read nothing on the host", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("no CUDA device");
  const at::Tensor logits = at::randn({64, 10}, at::TensorOptions(at::kCUDA)).to(at::kHalf);
  const at::Tensor targets = at::randint(10, {64}, at::TensorOptions(at::kCUDA).dtype(at::kLong));
  const at::Tensor leaf = logits.clone().requires_grad_();
  c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_ERROR);
  at::Tensor loss;
  at::Tensor sums;
  CHECK_NOTHROW(loss = task::loss_sum(leaf, targets, {.label_smoothing = 0.1}));
  CHECK_NOTHROW(loss.backward());
  CHECK_NOTHROW(sums = task::metric_sums(logits, targets));
  c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_DISABLED);

  const at::Tensor expected = task::metric_sums(logits.cpu(), targets.cpu());
  CHECK(at::allclose(sums.cpu(), expected, /*rtol=*/1e-5));
  CHECK(at::equal(sums.cpu().narrow(0, 1, 3), expected.narrow(0, 1, 3)));
}

TEST_CASE("The fused loss is the stock one, and can be switched off", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("no CUDA device");
  const at::Tensor logits = at::randn({64, 10}, at::TensorOptions(at::kCUDA)).to(at::kHalf);
  const at::Tensor targets = at::randint(10, {64}, at::TensorOptions(at::kCUDA).dtype(at::kLong));
  const auto run = [&](bool fused) {
    const at::Tensor leaf = logits.clone().requires_grad_();
    const at::Tensor loss = task::loss_sum(leaf, targets, {.label_smoothing = 0.1, .fused = fused});
    CHECK((loss.grad_fn()->name().find("SoftmaxCrossEntropy") != std::string::npos) == fused);
    loss.backward();
    return std::pair(loss.detach(), leaf.grad());
  };
  const auto [loss, grad] = run(true);
  const auto [stock_loss, stock_grad] = run(false);
  CHECK(at::allclose(loss, stock_loss, /*rtol=*/1e-5));
  CHECK(at::allclose(grad, stock_grad, /*rtol=*/1e-3, /*atol=*/1e-6));
}
