#include "kernels/batch_norm_pair.h"

#include <limits>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "batch_norm_fixture.h"
#include "support/devices.h"

#ifdef AMPCTL_WITH_CUDA
#include "support/captured.h"
#include "support/no_sync.h"
#endif

using namespace ampctl;
using kernels::batch_norm_pair_add_relu;
using kernels::batch_norm_pair_fused;
using kernels::BatchNormInputs;
using kernels::has_batch_norm_pair_kernel;
using test::ImageShape;
using test::in_float64;
using test::relative_error;
using test::rounding;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// The inputs of both norms.
struct Pair {
  at::Tensor first;
  BatchNormInputs first_inputs;
  at::Tensor second;
  BatchNormInputs second_inputs;

  /// The second norm differs in everything.
  Pair(at::Tensor first_images, at::Tensor second_images)
      : first(std::move(first_images)),
        first_inputs(test::batch_norm_inputs(first.size(1), first.scalar_type(), first.device())),
        second(std::move(second_images)),
        second_inputs(test::batch_norm_inputs(second.size(1), second.scalar_type(), second.device())) {
    const at::NoGradGuard no_grad;
    for (const auto& tensor : {second_inputs.weight, second_inputs.bias, second_inputs.running_mean}) {
      tensor.copy_(tensor.flip(0));
    }
    second_inputs.running_var.mul_(2);
    second_inputs.num_batches_tracked.fill_(7);
    second_inputs.momentum = 0.3;
    second_inputs.eps = 1e-3;
  }
  [[nodiscard]] std::vector<at::Tensor> leaves() const {
    return {first, first_inputs.weight, first_inputs.bias, second, second_inputs.weight, second_inputs.bias};
  }
};

// Off center, as the outputs of convolutions behind ReLU are.
Pair random_pair(const ImageShape& shape, at::ScalarType dtype, c10::Device device, uint64_t seed = 1) {
  return {test::random_images(shape, at::kDouble, seed).add(0.5).to(dtype).to(device),
          test::random_images(shape, at::kDouble, seed + 1).mul(2).sub(0.3).to(dtype).to(device)};
}

Pair widened(const Pair& pair) {
  Pair wide(in_float64(pair.first), in_float64(pair.second));
  wide.first_inputs = in_float64(pair.first_inputs);
  wide.second_inputs = in_float64(pair.second_inputs);
  return wide;
}

struct Outcome {
  std::vector<at::Tensor> outputs;
  std::vector<at::Tensor> grads;  // of Pair::leaves
};

// Gradients for the outputs; an undefined one leaves that output out.
template <typename Forward>
Outcome with_gradients(Pair pair, const std::vector<at::Tensor>& grads, const Forward& forward) {
  pair.first = pair.first.detach().set_requires_grad(true);
  pair.second = pair.second.detach().set_requires_grad(true);
  const std::vector<at::Tensor> outputs = forward(pair);
  std::vector<at::Tensor> roots;
  std::vector<at::Tensor> given;
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined()) continue;
    roots.push_back(outputs[i]);
    given.push_back(grads[i]);
  }
  Outcome outcome{{}, torch::autograd::grad(roots, pair.leaves(), given)};
  // Without the graph, which would hold on to nodes of its stream.
  for (const auto& output : outputs) outcome.outputs.push_back(output.detach());
  return outcome;
}

Outcome fused(const Pair& pair, const std::vector<at::Tensor>& grads) {
  return with_gradients(pair, grads, [&](const Pair& leaves) {
    return batch_norm_pair_fused(leaves.first, leaves.first_inputs, leaves.second, leaves.second_inputs,
                                 static_cast<int64_t>(grads.size()));
  });
}

at::Tensor stock(const Pair& pair) {
  return (test::stock_batch_norm(pair.first, pair.first_inputs) +
          test::stock_batch_norm(pair.second, pair.second_inputs))
      .relu();
}

// PyTorch's own operators on the CPU in float64; `wide` is left with the statistics.
Outcome expected(const Pair& wide, const std::vector<at::Tensor>& grads) {
  std::vector<at::Tensor> wide_grads;
  wide_grads.reserve(grads.size());
  for (const auto& grad : grads) wide_grads.push_back(grad.defined() ? in_float64(grad) : at::Tensor());
  return with_gradients(wide, wide_grads, [&](const Pair& leaves) {
    return std::vector<at::Tensor>(grads.size(), stock(leaves));
  });
}

void check_equal(const Outcome& found, const Outcome& wanted, at::ScalarType dtype) {
  const double tolerance = rounding(dtype);
  for (const auto& output : found.outputs) {
    CHECK(output.scalar_type() == dtype);
    CHECK(output.is_contiguous(at::MemoryFormat::ChannelsLast));
    CHECK(relative_error(output, wanted.outputs[0]) < tolerance);
  }
  for (const size_t input : {0, 3}) {
    // The gradient before the addition is rounded, and then that of the input.
    CHECK(found.grads[input].scalar_type() == dtype);
    CHECK(relative_error(found.grads[input], wanted.grads[input]) < 3 * tolerance);
    CHECK(relative_error(found.grads[input + 1], wanted.grads[input + 1]) < 2 * tolerance);
    CHECK(relative_error(found.grads[input + 2], wanted.grads[input + 2]) < 2 * tolerance);
  }
  // Autograd may add to either in place.
  CHECK(found.grads[2].data_ptr() != found.grads[5].data_ptr());
}

void check_statistics(const Pair& found, const Pair& wanted) {
  const auto check = [](const BatchNormInputs& own, const BatchNormInputs& wide) {
    CHECK(relative_error(own.running_mean, wide.running_mean) < 1e-5);
    CHECK(relative_error(own.running_var, wide.running_var) < 1e-5);
  };
  check(found.first_inputs, wanted.first_inputs);
  check(found.second_inputs, wanted.second_inputs);
  CHECK(found.first_inputs.num_batches_tracked.item<int64_t>() == 5);
  CHECK(found.second_inputs.num_batches_tracked.item<int64_t>() == 8);
  if (!found.first.is_cuda()) return;
  CHECK(found.first_inputs.tickets.eq(0).all().item<bool>());
  CHECK(found.second_inputs.tickets.eq(0).all().item<bool>());
}

bool has_kernel(const Pair& pair) {
  return has_batch_norm_pair_kernel(pair.first, pair.first_inputs, pair.second, pair.second_inputs);
}

void check_case(const ImageShape& shape, at::ScalarType dtype, c10::Device device, bool has_first = true,
                bool has_second = false) {
  INFO(c10::toString(dtype) << " (" << shape.n << ", " << shape.channels << ", " << shape.height << ", "
                            << shape.width << ") readers " << has_first << has_second);
  const auto grad = [&](bool is_there, uint64_t seed) {
    return is_there ? test::random_images(shape, dtype, seed).to(device) : at::Tensor();
  };
  const std::vector<at::Tensor> grads{grad(has_first, 3), grad(has_second, 4)};
  const Pair pair = random_pair(shape, dtype, device);
  const Pair wide = widened(pair);
  CHECK(has_kernel(pair) == (device.is_cuda() && dtype != at::kDouble));
  const Outcome found = fused(pair, grads);
  check_equal(found, expected(wide, grads), dtype);
  check_statistics(pair, wide);
  if (!has_kernel(pair)) return;
  for (const size_t input : {0, 3}) {
    CHECK(found.grads[input].is_contiguous(at::MemoryFormat::ChannelsLast));
  }
}

void check_shapes(c10::Device device) {
  for (const auto& shape : test::kBatchNormShapes) {
    for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
      check_case(shape, dtype, device);
    }
  }
}

void check_readers(c10::Device device) {
  for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    for (const auto& [first, second] : {std::pair{true, true}, {false, true}}) {
      for (const auto& shape : {ImageShape{3, 72, 9, 11}, {4, 72, 29, 31}}) {
        check_case(shape, dtype, device, first, second);
      }
    }
  }
}

void check_public_function(c10::Device device) {
  // Whether a kernel or the stock operators run: the results are these.
  for (const auto& shape : {ImageShape{2, 16, 6, 7}, {2, 12, 6, 7}}) {
    for (const auto dtype : {at::kHalf, at::kFloat, at::kDouble}) {
      // Stock operators in 16 bits round more than once.
      if (dtype == at::kHalf && (device.is_cpu() || shape.channels == 12)) continue;
      const std::vector<at::Tensor> grads{test::random_images(shape, dtype, 7).to(device),
                                          test::random_images(shape, dtype, 8).to(device)};
      const Pair pair = random_pair(shape, dtype, device, 5);
      const Pair wide = widened(pair);
      const Outcome found = with_gradients(pair, grads, [](const Pair& leaves) {
        const auto forked =
            batch_norm_pair_add_relu(leaves.first, leaves.first_inputs, leaves.second, leaves.second_inputs);
        return std::vector{forked.first, forked.second};
      });
      check_equal(found, expected(wide, grads), dtype);
      check_statistics(pair, wide);
    }
  }
}

void check_untracked(c10::Device device) {
  for (const auto& shape : {ImageShape{2, 16, 6, 7}, {4, 16, 29, 31}}) {
    const Pair tracked = random_pair(shape, at::kFloat, device, 28);
    Pair untracked = tracked;
    for (auto* inputs : {&untracked.first_inputs, &untracked.second_inputs}) {
      inputs->running_mean = inputs->running_var = inputs->num_batches_tracked = at::Tensor();
    }
    CHECK(has_kernel(untracked) == device.is_cuda());
    const at::Tensor grad = test::random_images(shape, at::kFloat, 30).to(device);
    CHECK(at::equal(fused(untracked, {grad}).outputs[0], fused(tracked, {grad}).outputs[0]));
  }
}

at::Tensor is_bad(const at::Tensor& images) {
  return in_float64(images).isfinite().logical_not().any(3).any(2).any(0);
}

void check_nonfinite(c10::Device device) {
  constexpr int64_t kBad = 5;
  for (const auto& shape : {ImageShape{2, 16, 9, 7}, {5, 16, 27, 26}}) {
    at::Tensor only = at::zeros({shape.channels}, at::kBool);
    only[kBad].fill_(true);
    for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat}) {
      for (const double value : {kInfinity, -kInfinity, kNan}) {
        INFO(c10::toString(dtype) << " " << value);
        const auto spoil = [&](at::Tensor& tensor) {
          tensor = tensor.clone();
          tensor[1][kBad][3][2].fill_(value);
        };
        at::Tensor grad = test::random_images(shape, dtype, 12).to(device);
        // In an input: the whole channel is NaN, forwards and in the gradient of that input, and no other.
        for (const bool is_first : {true, false}) {
          Pair pair = random_pair(shape, dtype, device, 13);
          spoil(is_first ? pair.first : pair.second);
          const Outcome found = fused(pair, {grad, grad});
          CHECK(in_float64(found.outputs[0]).select(1, kBad).isnan().all().item<bool>());
          CHECK(at::equal(is_bad(found.outputs[0]), only));
          CHECK(at::equal(is_bad(found.grads[is_first ? 0 : 3]), only));
          CHECK(at::equal(in_float64(found.grads[is_first ? 1 : 4]).isfinite().logical_not(), only));
          CHECK(at::equal(is_bad(found.grads[is_first ? 3 : 0]), at::zeros_like(only)));
        }
        // In the gradient, where the output is positive: the channel's gradients in both norms.
        Pair pair = random_pair(shape, dtype, device, 15);
        for (const auto* inputs : {&pair.first_inputs, &pair.second_inputs}) {
          const at::NoGradGuard no_grad;
          inputs->bias[kBad].fill_(100.0);
        }
        spoil(grad);
        const Outcome found = fused(pair, {grad, grad});
        for (const size_t input : {0, 3}) CHECK(at::equal(is_bad(found.grads[input]), only));
        for (const size_t i : {1, 2, 4, 5}) {
          CHECK(at::equal(in_float64(found.grads[i]).isfinite().logical_not(), only));
        }
      }
    }
  }
}

void check_grad_layouts(c10::Device device) {
  const ImageShape shape{2, 16, 6, 7};
  const Pair pair = random_pair(shape, at::kHalf, device, 17);
  const at::Tensor grad = test::random_images(shape, at::kHalf, 19).to(device);
  const at::Tensor shifted = at::zeros({grad.numel() + 1}, grad.options())
                                 .narrow(0, 1, grad.numel())
                                 .view({2, 6, 7, 16})
                                 .permute({0, 3, 1, 2})
                                 .copy_(grad);
  for (const auto& given : {grad.contiguous(), at::ones({}, grad.options()).expand(grad.sizes()), shifted}) {
    check_equal(fused(pair, {given, grad}), expected(widened(pair), {given, grad}), at::kHalf);
  }
}

void check_second_derivative(c10::Device device) {
  const ImageShape shape{2, 8, 5, 5};
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const auto twice = [&](const auto& forward) {
      Pair pair = random_pair(shape, dtype, device, 20);
      pair.first.set_requires_grad(true);
      pair.second.set_requires_grad(true);
      const at::Tensor grad = test::random_images(shape, dtype, 22).to(device).set_requires_grad(true);
      const auto first = torch::autograd::grad({forward(pair)}, pair.leaves(), {grad},
                                               /*retain_graph=*/true, /*create_graph=*/true);
      at::Tensor sum = at::zeros({}, pair.first_inputs.weight.options());
      for (const size_t i : {0, 1, 3, 4}) sum = sum + first[i].square().sum();
      return torch::autograd::grad({sum}, {pair.first, pair.second, grad});
    };
    const auto found = twice([](const Pair& pair) {
      return batch_norm_pair_fused(pair.first, pair.first_inputs, pair.second, pair.second_inputs, 1)[0];
    });
    const auto wanted = twice(stock);
    for (size_t i = 0; i < found.size(); ++i) CHECK(relative_error(found[i], wanted[i]) < 1e-4);
  }
}

void check_kernel_choice(c10::Device device) {
  const Pair pair = random_pair({2, 16, 5, 5}, at::kHalf, device, 23);
  CHECK(has_kernel(pair) == device.is_cuda());
  Pair mixed = pair;
  mixed.second = pair.second.to(at::kFloat);
  CHECK_FALSE(has_kernel(mixed));
  // Left to PyTorch; the result stays in the first input's type.
  const auto forked =
      batch_norm_pair_add_relu(mixed.first, mixed.first_inputs, mixed.second, mixed.second_inputs);
  CHECK(forked.first.scalar_type() == at::kHalf);
  Pair without = pair;
  without.second_inputs.tickets = at::Tensor();
  CHECK_FALSE(has_kernel(without));
  Pair scattered = pair;
  scattered.second = pair.second.contiguous();
  CHECK_FALSE(has_kernel(scattered));
}

}  // namespace

AMPCTL_DEVICE_TEST_CASE(check_shapes, "Two batch norms added equal float64, forwards and backwards")
AMPCTL_DEVICE_TEST_CASE(check_readers, "Gradients of two readers of a sum of batch norms are added")
AMPCTL_DEVICE_TEST_CASE(check_public_function,
                        "With a kernel or without, two batch norms added give what PyTorch gives")
AMPCTL_DEVICE_TEST_CASE(check_untracked, "Two batch norms added need no running statistics")
AMPCTL_DEVICE_TEST_CASE(check_nonfinite, "Infs and NaNs pass through two batch norms and their gradients")
AMPCTL_DEVICE_TEST_CASE(check_grad_layouts, "Gradients of two batch norms added may lie in any layout")
AMPCTL_DEVICE_TEST_CASE(check_second_derivative, "Two batch norms added have a second derivative")
AMPCTL_DEVICE_TEST_CASE(check_kernel_choice, "Batch norms that do not go together go to PyTorch's operators")

TEST_CASE("Two batch norms added refuse what they cannot do") {
  const Pair pair = random_pair({2, 8, 3, 3}, at::kFloat, at::kCPU, 24);
  const auto run = [&](const at::Tensor& first, const at::Tensor& second, int64_t readers) {
    return batch_norm_pair_fused(first, pair.first_inputs, second, pair.second_inputs, readers);
  };
  CHECK_THROWS_AS(run(pair.first[0], pair.second[0], 1), Error);
  CHECK_THROWS_AS(run(pair.first, pair.second, 3), Error);
  CHECK_THROWS_AS(batch_norm_pair_add_relu(pair.first, pair.first_inputs, pair.second.narrow(2, 0, 2),
                                           pair.second_inputs),
                  Error);
}

#ifdef AMPCTL_WITH_CUDA
TEST_CASE("Two batch norms added repeat bit for bit", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const ImageShape shape{16, 128, 29, 31};
  const at::Tensor grad = test::random_images(shape, at::kHalf, 25).to(at::kCUDA);
  const auto all = [&] {
    const Pair pair = random_pair(shape, at::kHalf, c10::Device(c10::kCUDA, 0), 26);
    const Outcome found = fused(pair, {grad, grad});
    CHECK(found.outputs[0].data_ptr() == found.outputs[1].data_ptr());
    std::vector<at::Tensor> tensors{found.outputs[0], pair.first_inputs.running_var,
                                    pair.second_inputs.running_var};
    tensors.insert(tensors.end(), found.grads.begin(), found.grads.end());
    return tensors;
  };
  const auto first = all();
  for (int i = 0; i < 5; ++i) {
    const auto again = all();
    for (size_t j = 0; j < first.size(); ++j) CHECK(at::equal(again[j], first[j]));
  }
}

TEST_CASE("Two batch norms added read nothing on the host and replay in a CUDA graph", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const c10::Device device(c10::kCUDA, 0);
  for (const auto& shape : {ImageShape{4, 64, 15, 14}, {5, 64, 27, 26}}) {
    const at::Tensor grad = test::random_images(shape, at::kHalf, 29).to(device);
    const Pair pair = random_pair(shape, at::kHalf, device, 30);
    const Pair other = random_pair(shape, at::kHalf, device, 32);
    const auto run = [&] { return fused(pair, {grad, grad}); };
    {
      const test::NoSync no_sync;
      CHECK_NOTHROW(run());
    }
    Outcome found;
    test::Captured graph([&] { found = run(); });
    pair.first.copy_(other.first);
    pair.second.copy_(other.second);
    for (int replay = 0; replay < 3; ++replay) graph.replay();
    check_equal(found, expected(widened(pair), {grad, grad}), at::kHalf);
    CHECK(pair.first_inputs.num_batches_tracked.item<int64_t>() == 8);
    CHECK(pair.second_inputs.num_batches_tracked.item<int64_t>() == 11);
  }
}
#endif
