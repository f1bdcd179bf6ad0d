#include "kernels/batch_norm_pool.h"

#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "batch_norm_fixture.h"
#include "support/devices.h"

#ifdef AMPCTL_WITH_CUDA
#include "support/captured.h"
#include "support/no_sync.h"
#endif

using namespace ampctl;
using kernels::batch_norm_relu_max_pool;
using kernels::batch_norm_relu_max_pool_fused;
using kernels::BatchNormInputs;
using test::ImageShape;
using test::in_float64;
using test::relative_error;
using test::rounding;

namespace {

const std::vector<ImageShape> kShapes{{1, 8, 5, 7},    {2, 24, 9, 5},   {3, 64, 12, 14}, {2, 72, 11, 13},
                                      {1, 2048, 3, 4}, {2, 64, 57, 61}, {5, 8, 1, 9},    {3, 16, 2, 1}};

struct Outcome {
  std::vector<at::Tensor> outputs;
  std::vector<at::Tensor> grads;  // of input, weight, bias
};

Outcome with_gradients(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& given,
                       const at::Tensor& input, const BatchNormInputs& inputs) {
  std::vector<at::Tensor> roots;
  std::vector<at::Tensor> grads;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].defined()) continue;
    roots.push_back(outputs[i]);
    grads.push_back(given[i]);
  }
  Outcome outcome{{}, torch::autograd::grad(roots, {input, inputs.weight, inputs.bias}, grads)};
  // Without the graph, which would hold on to nodes of its stream.
  for (const auto& output : outputs) outcome.outputs.push_back(output.detach());
  return outcome;
}

Outcome fused(const at::Tensor& input, const std::vector<at::Tensor>& given, const BatchNormInputs& inputs) {
  const at::Tensor x = input.detach().set_requires_grad(true);
  return with_gradients(batch_norm_relu_max_pool_fused(x, inputs, static_cast<int64_t>(given.size())), given,
                        x, inputs);
}

at::Tensor stock(const at::Tensor& input, const BatchNormInputs& inputs) {
  return at::max_pool2d(test::stock_batch_norm(input, inputs).relu(), 3, 2, 1);
}

Outcome expected(const at::Tensor& input, const std::vector<at::Tensor>& given,
                 const BatchNormInputs& inputs) {
  const at::Tensor x = in_float64(input).set_requires_grad(true);
  std::vector<at::Tensor> wide;
  wide.reserve(given.size());
  for (const auto& grad : given) wide.push_back(grad.defined() ? in_float64(grad) : at::Tensor());
  return with_gradients(std::vector<at::Tensor>(given.size(), stock(x, inputs)), wide, x, inputs);
}

at::Tensor pooled_images(const ImageShape& shape, at::ScalarType dtype, uint64_t seed) {
  const auto& window = kernels::kBatchNormPoolWindow;
  return test::random_images(
      {shape.n, shape.channels, window.pooled(shape.height), window.pooled(shape.width)}, dtype, seed);
}

void check_equal(const Outcome& found, const Outcome& wanted, at::ScalarType dtype) {
  for (const auto& output : found.outputs) {
    CHECK(output.scalar_type() == dtype);
    CHECK(relative_error(output, wanted.outputs[0]) < rounding(dtype));
  }
  CHECK(found.grads[0].scalar_type() == dtype);
  for (size_t i = 0; i < found.grads.size(); ++i) {
    CHECK(relative_error(found.grads[i], wanted.grads[i]) < 3 * rounding(dtype));
  }
}

void check_shapes(c10::Device device) {
  for (const auto& shape : kShapes) {
    // In 16 bits there are many equal values, of which the first has to be found.
    for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
      INFO(c10::toString(dtype) << " (" << shape.n << ", " << shape.channels << ", " << shape.height << ", "
                                << shape.width << ")");
      const at::Tensor input = test::random_images(shape, dtype, 1).to(device);
      const at::Tensor grad = pooled_images(shape, dtype, 2).to(device);
      const BatchNormInputs inputs = test::batch_norm_inputs(shape.channels, dtype, device);
      const BatchNormInputs wide = in_float64(inputs);
      CHECK(kernels::has_batch_norm_kernel(input, inputs) == (device.is_cuda() && dtype != at::kDouble));
      const Outcome found = fused(input, {grad}, inputs);
      check_equal(found, expected(input, {grad}, wide), dtype);
      CHECK(relative_error(inputs.running_mean, wide.running_mean) < 1e-5);
      CHECK(relative_error(inputs.running_var, wide.running_var) < 1e-5);
      CHECK(inputs.num_batches_tracked.item<int64_t>() == 5);
      if (device.is_cuda()) CHECK(inputs.tickets.eq(0).all().item<bool>());
    }
  }
}

void check_readers(c10::Device device) {
  const ImageShape shape{2, 24, 9, 11};
  const at::Tensor first = pooled_images(shape, at::kHalf, 5).to(device);
  const at::Tensor second = pooled_images(shape, at::kHalf, 6).to(device).contiguous();
  const at::Tensor input = test::random_images(shape, at::kHalf, 7).to(device);
  const at::Tensor none;
  for (const auto& given : {std::vector{first, second}, {first, none}, {none, second}}) {
    const BatchNormInputs inputs = test::batch_norm_inputs(shape.channels, at::kHalf, device);
    const BatchNormInputs wide = in_float64(inputs);
    check_equal(fused(input, given, inputs), expected(input, given, wide), at::kHalf);
  }
}

void check_public_function(c10::Device device) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    for (const int64_t channels : {16, 12}) {
      const ImageShape shape{2, channels, 9, 11};
      const at::Tensor x = test::random_images(shape, dtype, 8).to(device).set_requires_grad(true);
      const std::vector<at::Tensor> given{pooled_images(shape, dtype, 9).to(device),
                                          pooled_images(shape, dtype, 10).to(device)};
      const BatchNormInputs inputs = test::batch_norm_inputs(channels, dtype, device);
      const BatchNormInputs wide = in_float64(inputs);
      const auto forked = batch_norm_relu_max_pool(x, inputs);
      check_equal(with_gradients({forked.first, forked.second}, given, x, inputs), expected(x, given, wide),
                  dtype);
      CHECK(inputs.num_batches_tracked.item<int64_t>() == 5);
    }
  }
}

void check_nonfinite(c10::Device device) {
  const ImageShape shape{2, 16, 9, 7};
  constexpr int64_t kBad = 5;
  at::Tensor only = at::zeros({shape.channels}, at::kBool);
  only[kBad].fill_(true);
  const auto is_bad = [](const at::Tensor& images) {
    return in_float64(images).isfinite().logical_not().any(3).any(2).any(0);
  };
  for (const double value :
       {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN()}) {
    at::Tensor input = test::random_images(shape, at::kHalf, 11);
    at::Tensor grad = pooled_images(shape, at::kHalf, 12);
    const auto run = [&] {
      return fused(input.to(device), {grad.to(device)},
                   test::batch_norm_inputs(shape.channels, at::kHalf, device));
    };
    const at::Tensor clean = input.clone();
    input[1][kBad][3][2].fill_(value);
    const Outcome spoilt_input = run();
    CHECK(in_float64(spoilt_input.outputs[0]).select(1, kBad).isnan().all().item<bool>());
    CHECK(at::equal(is_bad(spoilt_input.outputs[0]), only));
    CHECK(at::equal(is_bad(spoilt_input.grads[0]), only));
    input = clean;
    grad[1][kBad].fill_(value);
    const Outcome spoilt_grad = run();
    for (const auto& found :
         {is_bad(spoilt_grad.grads[0]), in_float64(spoilt_grad.grads[1]).isfinite().logical_not(),
          in_float64(spoilt_grad.grads[2]).isfinite().logical_not()}) {
      CHECK(at::equal(found, only));
    }
  }
}

void check_second_derivative(c10::Device device) {
  const ImageShape shape{2, 8, 5, 5};
  const auto twice = [&](const auto& forward) {
    const BatchNormInputs inputs = test::batch_norm_inputs(shape.channels, at::kDouble, device);
    const at::Tensor x = test::random_images(shape, at::kDouble, 13).to(device).set_requires_grad(true);
    const at::Tensor grad = pooled_images(shape, at::kDouble, 14).to(device).set_requires_grad(true);
    const at::Tensor first = torch::autograd::grad({forward(x, inputs)}, {x}, {grad}, /*retain_graph=*/true,
                                                   /*create_graph=*/true)[0];
    return torch::autograd::grad({first.square().sum()}, {x, grad});
  };
  const auto found = twice([](const at::Tensor& x, const BatchNormInputs& inputs) {
    return batch_norm_relu_max_pool_fused(x, inputs, 1)[0];
  });
  const auto wanted = twice(stock);
  for (size_t i = 0; i < found.size(); ++i) CHECK(relative_error(found[i], wanted[i]) < 1e-9);
}

}  // namespace

AMPCTL_DEVICE_TEST_CASE(check_shapes, "Batch norm, ReLU and max pooling in one equal float64")
AMPCTL_DEVICE_TEST_CASE(check_readers, "Gradients of two readers of the pooled result are added")
AMPCTL_DEVICE_TEST_CASE(check_public_function, "With kernels or without, the stem gives what PyTorch gives")
AMPCTL_DEVICE_TEST_CASE(check_nonfinite, "Infs and NaNs pass through the stem and its gradient")
AMPCTL_DEVICE_TEST_CASE(check_second_derivative, "Batch norm, ReLU and max pooling in one derive twice")

TEST_CASE("Batch norm, ReLU and max pooling in one refuse what they cannot do") {
  const BatchNormInputs inputs = test::batch_norm_inputs(8, at::kFloat, at::kCPU);
  const at::Tensor input = test::random_images({2, 8, 3, 3}, at::kFloat, 15);
  CHECK_THROWS_AS(batch_norm_relu_max_pool(input[0], inputs), Error);
  CHECK_THROWS_AS(batch_norm_relu_max_pool_fused(input, inputs, 0), Error);
}

#ifdef AMPCTL_WITH_CUDA
TEST_CASE("The stem repeats bit for bit, reads nothing on the host and replays in a CUDA graph", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const ImageShape shape{4, 64, 31, 30};
  const at::Tensor input = test::random_images(shape, at::kHalf, 16).to(at::kCUDA);
  const at::Tensor other = test::random_images(shape, at::kHalf, 17).to(at::kCUDA);
  const at::Tensor grad = pooled_images(shape, at::kHalf, 18).to(at::kCUDA);
  const BatchNormInputs inputs = test::batch_norm_inputs(shape.channels, at::kHalf, at::kCUDA);
  const auto run = [&] { return fused(input, {grad, grad}, inputs); };
  const Outcome first = run();
  {
    const test::NoSync no_sync;
    CHECK_NOTHROW(run());
  }
  const Outcome again = run();
  CHECK(at::equal(again.outputs[0], first.outputs[0]));
  for (size_t i = 0; i < first.grads.size(); ++i) CHECK(at::equal(again.grads[i], first.grads[i]));

  Outcome found;
  test::Captured graph([&] { found = run(); });
  input.copy_(other);
  for (int replay = 0; replay < 2; ++replay) graph.replay();
  check_equal(found, expected(other, {grad, grad}, in_float64(inputs)), at::kHalf);
}
#endif
