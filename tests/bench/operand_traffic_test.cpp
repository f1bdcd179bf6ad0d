#include "bench/operand_traffic.h"

#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>

#include "support/catch.h"

using ampctl::bench::operand_traffic;

TEST_CASE("An operator's inputs and outputs count once, in bytes") {
  const at::NoGradGuard no_grad;
  const at::Tensor a = at::ones({100});
  const at::Tensor b = at::ones({100}, at::kHalf);
  // 400 + 400 in, 400 out
  CHECK(operand_traffic([&] { (void)at::add(a, a); }) == 1200);
  CHECK(operand_traffic([&] { (void)at::relu(b); }) == 400);
  CHECK(operand_traffic([] {}) == 0);
}

TEST_CASE("Views and allocations move nothing") {
  const at::Tensor a = at::ones({10, 10});
  CHECK(operand_traffic([&] { (void)a.view({100}).transpose(0, 0).detach(); }) == 0);
  CHECK(operand_traffic([&] { (void)at::empty_like(a); }) == 0);
}

TEST_CASE("An operator made of others counts once, and lists count whole") {
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::ones({8, 16});
  const at::Tensor weight = at::ones({4, 16});
  const at::Tensor bias = at::ones({4});
  // linear is addmm inside, which copies the bias first: 16 + 512 + 256 bytes in, 128 out
  CHECK(operand_traffic([&] { (void)at::linear(x, weight, bias); }) == 912);
  const std::vector<at::Tensor> many{at::ones({10}), at::ones({20})};
  // Both lists of 120 bytes are inputs.
  CHECK(operand_traffic([&] { at::_foreach_add_(many, many); }) >= 240);
}

TEST_CASE("The backward pass counts as well") {
  at::Tensor x = at::ones({1000});
  x.set_requires_grad(true);
  at::Tensor y;
  const auto forward = operand_traffic([&] { y = at::relu(x).sum(); });
  const auto backward = operand_traffic([&] { y.backward(); });
  CHECK(forward >= 12000);
  // relu's gradient alone: two inputs and an output of 4000 bytes
  CHECK(backward >= 12000);
}
