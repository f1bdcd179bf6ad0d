#include "kernels/batch_norm_act.h"

#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "batch_norm_fixture.h"
#include "support/devices.h"

#ifdef AMPCTL_WITH_CUDA
#include "support/captured.h"
#include "support/no_sync.h"
#endif

using namespace ampctl;
using kernels::batch_norm_act;
using kernels::batch_norm_act_fused;
using kernels::batch_norm_add_relu;
using kernels::BatchNormInputs;
using kernels::has_batch_norm_kernel;
using test::ImageShape;
using test::in_float64;
using test::relative_error;
using test::rounding;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

enum class Form { plain, relu, add_relu };

struct Outcome {
  std::vector<at::Tensor> outputs;
  at::Tensor grad_input;
  at::Tensor grad_residual;  // undefined without an addition
  at::Tensor grad_weight;
  at::Tensor grad_bias;
};

// Gradients for the outputs; an undefined one leaves that output out.
Outcome with_gradients(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& grads,
                       const at::Tensor& input, const at::Tensor& residual, const BatchNormInputs& inputs) {
  std::vector<at::Tensor> roots;
  std::vector<at::Tensor> given;
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined()) continue;
    roots.push_back(outputs[i]);
    given.push_back(grads[i]);
  }
  std::vector<at::Tensor> leaves{input, inputs.weight, inputs.bias};
  if (residual.defined()) leaves.push_back(residual);
  const auto found = torch::autograd::grad(roots, leaves, given);
  Outcome outcome{{}, found[0], residual.defined() ? found[3] : at::Tensor(), found[1], found[2]};
  // Without the graph, which would hold on to nodes of its stream.
  for (const auto& output : outputs) outcome.outputs.push_back(output.detach());
  return outcome;
}

Outcome fused(const at::Tensor& input, const at::Tensor& residual, const std::vector<at::Tensor>& grads,
              const BatchNormInputs& inputs, Form form) {
  const at::Tensor x = input.detach().set_requires_grad(true);
  const at::Tensor z = residual.defined() ? residual.detach().set_requires_grad(true) : at::Tensor();
  const auto outputs =
      batch_norm_act_fused(x, z, inputs, form != Form::plain, static_cast<int64_t>(grads.size()));
  return with_gradients(outputs, grads, x, z, inputs);
}

// PyTorch's own operators on the CPU in float64.
Outcome expected(const at::Tensor& input, const at::Tensor& residual, const std::vector<at::Tensor>& grads,
                 const BatchNormInputs& inputs, Form form) {
  const at::Tensor x = in_float64(input).set_requires_grad(true);
  at::Tensor z;
  at::Tensor output = test::stock_batch_norm(x, inputs);
  if (residual.defined()) {
    z = in_float64(residual).set_requires_grad(true);
    output = output + z;
  }
  if (form != Form::plain) output = output.relu();
  std::vector<at::Tensor> wide;
  wide.reserve(grads.size());
  for (const auto& grad : grads) wide.push_back(grad.defined() ? in_float64(grad) : at::Tensor());
  return with_gradients(std::vector<at::Tensor>(grads.size(), output), wide, x, z, inputs);
}

void check_equal(const Outcome& found, const Outcome& wanted, at::ScalarType dtype) {
  const double tolerance = rounding(dtype);
  for (const auto& output : found.outputs) {
    CHECK(output.scalar_type() == dtype);
    CHECK(output.is_contiguous(at::MemoryFormat::ChannelsLast));
    CHECK(relative_error(output, wanted.outputs[0]) < tolerance);
  }
  // The gradient before the addition is rounded, and then that of the input.
  CHECK(found.grad_input.scalar_type() == dtype);
  CHECK(relative_error(found.grad_input, wanted.grad_input) < 3 * tolerance);
  CHECK(relative_error(found.grad_weight, wanted.grad_weight) < 2 * tolerance);
  CHECK(relative_error(found.grad_bias, wanted.grad_bias) < 2 * tolerance);
  if (!wanted.grad_residual.defined()) return;
  CHECK(found.grad_residual.scalar_type() == dtype);
  CHECK(relative_error(found.grad_residual, wanted.grad_residual) < tolerance);
}

void check_case(const ImageShape& shape, at::ScalarType dtype, Form form, c10::Device device,
                bool has_first = true, bool has_second = false) {
  INFO(c10::toString(dtype) << " (" << shape.n << ", " << shape.channels << ", " << shape.height << ", "
                            << shape.width << ") form " << static_cast<int>(form) << " readers " << has_first
                            << has_second);
  // Off center, as the outputs of convolutions behind ReLU are.
  const at::Tensor input = test::random_images(shape, at::kDouble, 1).add(0.5).to(dtype).to(device);
  const at::Tensor residual =
      form == Form::add_relu ? test::random_images(shape, dtype, 2).to(device) : at::Tensor();
  const auto grad = [&](bool is_there, uint64_t seed) {
    return is_there ? test::random_images(shape, dtype, seed).to(device) : at::Tensor();
  };
  std::vector<at::Tensor> grads{grad(has_first, 3)};
  if (form == Form::add_relu) grads.push_back(grad(has_second, 4));
  const BatchNormInputs inputs = test::batch_norm_inputs(shape.channels, dtype, device);
  const BatchNormInputs wide = in_float64(inputs);
  CHECK(has_batch_norm_kernel(input, inputs) == (device.is_cuda() && dtype != at::kDouble));

  const Outcome found = fused(input, residual, grads, inputs, form);
  check_equal(found, expected(input, residual, grads, wide, form), dtype);
  CHECK(relative_error(inputs.running_mean, wide.running_mean) < 1e-5);
  CHECK(relative_error(inputs.running_var, wide.running_var) < 1e-5);
  CHECK(inputs.num_batches_tracked.item<int64_t>() == 5);
  if (device.is_cuda()) CHECK(inputs.tickets.eq(0).all().item<bool>());
}

void check_forms(c10::Device device) {
  for (const auto& shape : test::kBatchNormShapes) {
    for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
      for (const auto form : {Form::plain, Form::relu, Form::add_relu}) {
        check_case(shape, dtype, form, device);
      }
    }
  }
}

void check_readers(c10::Device device) {
  for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    for (const auto& [first, second] : {std::pair{true, true}, {true, false}, {false, true}}) {
      for (const auto& shape : {ImageShape{3, 72, 9, 11}, {4, 72, 29, 31}}) {
        check_case(shape, dtype, Form::add_relu, device, first, second);
      }
    }
  }
}

void check_public_functions(c10::Device device) {
  // Whether a kernel, the stock operators or none of both fast paths runs: the results are these.
  for (const auto& shape : {ImageShape{2, 16, 6, 7}, {2, 12, 6, 7}}) {
    for (const auto dtype : {at::kHalf, at::kFloat, at::kDouble}) {
      if (device.is_cpu() && dtype == at::kHalf) continue;  // its stock sums are less precise
      const at::Tensor x = test::random_images(shape, dtype, 5).to(device).set_requires_grad(true);
      const at::Tensor z = test::random_images(shape, dtype, 6).to(device).set_requires_grad(true);
      const std::vector<at::Tensor> grads{test::random_images(shape, dtype, 7).to(device),
                                          test::random_images(shape, dtype, 8).to(device)};
      const auto compare = [&](Form form, const at::Tensor& residual, const std::vector<at::Tensor>& given,
                               const auto& run) {
        const BatchNormInputs inputs = test::batch_norm_inputs(shape.channels, dtype, device);
        const BatchNormInputs wide = in_float64(inputs);
        const Outcome found = with_gradients(run(inputs), given, x, residual, inputs);
        check_equal(found, expected(x, residual, given, wide, form), dtype);
        CHECK(inputs.num_batches_tracked.item<int64_t>() == 5);
      };
      compare(Form::plain, {}, {grads[0]},
              [&](const auto& inputs) { return std::vector{batch_norm_act(x, inputs, false)}; });
      compare(Form::relu, {}, {grads[0]},
              [&](const auto& inputs) { return std::vector{batch_norm_act(x, inputs, true)}; });
      compare(Form::add_relu, z, grads, [&](const auto& inputs) {
        const auto forked = batch_norm_add_relu(x, z, inputs);
        return std::vector{forked.first, forked.second};
      });
    }
  }
}

void check_untracked(c10::Device device) {
  for (const auto& shape : {ImageShape{2, 16, 6, 7}, {4, 16, 29, 31}}) {
    const at::Tensor input = test::random_images(shape, at::kFloat, 28).to(device);
    const BatchNormInputs tracked = test::batch_norm_inputs(16, at::kFloat, device);
    BatchNormInputs untracked = tracked;
    untracked.running_mean = untracked.running_var = untracked.num_batches_tracked = at::Tensor();
    CHECK(has_batch_norm_kernel(input, untracked) == device.is_cuda());
    for (const bool relu : {true, false}) {
      CHECK(at::equal(batch_norm_act(input, untracked, relu), batch_norm_act(input, tracked, relu)));
    }
    CHECK(tracked.num_batches_tracked.item<int64_t>() == 6);
  }
}

void check_cancellation(c10::Device device) {
  // Far from zero, next to nothing beside the mean, and with an outlier where a slice begins.
  for (const auto& shape : {ImageShape{2, 64, 33, 31}, {4, 64, 33, 31}}) {
    const at::Tensor noise = test::random_images(shape, at::kDouble, 9);
    at::Tensor outlier = noise.clone(at::MemoryFormat::ChannelsLast);
    outlier[0].select(1, 0).select(1, 0).fill_(3000.0);
    for (const auto& values : {noise * 0.01 + 1000.0, noise * 1e-3 - 30.0, noise * 1e-6, outlier}) {
      const at::Tensor input = values.to(at::kFloat).to(device);
      const BatchNormInputs inputs = test::batch_norm_inputs(shape.channels, at::kFloat, device);
      const BatchNormInputs stock = test::batch_norm_inputs(shape.channels, at::kFloat, device);
      const BatchNormInputs wide = in_float64(inputs);
      const at::Tensor wanted = test::stock_batch_norm(in_float64(input), wide);
      const double found = relative_error(batch_norm_act(input, inputs, false), wanted);
      const double theirs = relative_error(test::stock_batch_norm(input, stock), wanted);
      CHECK(found < 2 * theirs + 1e-6);
      CHECK(relative_error(inputs.running_var, wide.running_var) < 1e-5);
    }
  }
}

void check_magnitudes(c10::Device device) {
  const ImageShape shape{3, 24, 11, 9};
  for (const auto& [dtype, scale] : {std::pair{at::kHalf, 1e-5},
                                     {at::kHalf, 1e4},
                                     {at::kBFloat16, 1e-15},
                                     {at::kBFloat16, 1e15},
                                     {at::kFloat, 1e-15},
                                     {at::kFloat, 1e15}}) {
    const at::Tensor input = test::random_images(shape, at::kDouble, 10).mul(scale).to(dtype).to(device);
    const at::Tensor grad = test::random_images(shape, dtype, 11).to(device);
    const BatchNormInputs inputs = test::batch_norm_inputs(shape.channels, dtype, device);
    const BatchNormInputs wide = in_float64(inputs);
    INFO(c10::toString(dtype) << " times " << scale);
    // Gradients of large inputs are tiny, and subnormal in float16.
    const bool compares_input = dtype != at::kHalf;
    Outcome found = fused(input, {}, {grad}, inputs, Form::relu);
    const Outcome wanted = expected(input, {}, {grad}, wide, Form::relu);
    if (!compares_input) found.grad_input = wanted.grad_input.to(dtype);
    check_equal(found, wanted, dtype);
  }
}

void check_nonfinite_in(const ImageShape& shape, c10::Device device) {
  constexpr int64_t kBad = 5;
  const auto is_bad = [](const at::Tensor& images) {
    return in_float64(images).isfinite().logical_not().any(3).any(2).any(0);
  };
  for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat}) {
    for (const double value : {kInfinity, -kInfinity, kNan}) {
      INFO(c10::toString(dtype) << " " << value);
      const at::Tensor clean = test::random_images(shape, dtype, 12).to(device);
      const at::Tensor grad = test::random_images(shape, dtype, 13).to(device);
      const auto spoilt = [&](const at::Tensor& tensor) {
        at::Tensor copy = tensor.clone();
        copy[1][kBad][3][2].fill_(value);
        return copy;
      };
      at::Tensor only = at::zeros({shape.channels}, at::kBool);
      only[kBad].fill_(true);
      const auto run = [&](const at::Tensor& input, const at::Tensor& residual, const at::Tensor& given) {
        const BatchNormInputs inputs = test::batch_norm_inputs(shape.channels, dtype, device);
        return fused(input, residual, {given, given}, inputs,
                     residual.defined() ? Form::add_relu : Form::relu);
      };
      // In the input: the whole channel is NaN, forwards and backwards, and no other one.
      for (const auto& residual : {at::Tensor(), clean}) {
        const Outcome found = run(spoilt(clean), residual, grad);
        CHECK(in_float64(found.outputs[0]).select(1, kBad).isnan().all().item<bool>());
        CHECK(at::equal(is_bad(found.outputs[0]), only));
        CHECK(at::equal(is_bad(found.grad_input), only));
        CHECK(at::equal(in_float64(found.grad_weight).isfinite().logical_not(), only));
      }
      // In the residual: this value alone, as PyTorch has it.
      const BatchNormInputs wide = in_float64(test::batch_norm_inputs(shape.channels, dtype, device));
      const Outcome wanted = expected(clean, spoilt(clean), {grad, grad}, wide, Form::add_relu);
      const Outcome found = run(clean, spoilt(clean), grad);
      CHECK(at::equal(in_float64(found.outputs[0]).isfinite(), wanted.outputs[0].isfinite()));
      CHECK(at::equal(in_float64(found.outputs[0]).isnan(), wanted.outputs[0].isnan()));
      CHECK(at::equal(in_float64(found.grad_residual).eq(0), wanted.grad_residual.eq(0)));
      // In the gradient, where the output is positive: the channel's gradients.
      at::Tensor positive = clean.clone();
      positive[1][kBad][3][2].fill_(100.0);
      const Outcome after = run(clean, positive, spoilt(grad));
      CHECK(at::equal(is_bad(after.grad_input), only));
      CHECK(at::equal(in_float64(after.grad_bias).isfinite().logical_not(), only));
      CHECK(at::equal(in_float64(after.grad_weight).isfinite().logical_not(), only));
    }
  }
}

void check_nonfinite(c10::Device device) {
  check_nonfinite_in({2, 16, 9, 7}, device);
  check_nonfinite_in({5, 16, 27, 26}, device);
}

void check_grad_layouts(c10::Device device) {
  const ImageShape shape{2, 16, 6, 7};
  const at::Tensor input = test::random_images(shape, at::kHalf, 14).to(device);
  const at::Tensor residual = test::random_images(shape, at::kHalf, 15).to(device).contiguous();
  const at::Tensor grad = test::random_images(shape, at::kHalf, 16).to(device);
  const at::Tensor shifted = at::zeros({grad.numel() + 1}, grad.options())
                                 .narrow(0, 1, grad.numel())
                                 .view({2, 6, 7, 16})
                                 .permute({0, 3, 1, 2})
                                 .copy_(grad);
  for (const auto& given : {grad.contiguous(), at::ones({}, grad.options()).expand(grad.sizes()), shifted}) {
    const BatchNormInputs inputs = test::batch_norm_inputs(shape.channels, at::kHalf, device);
    const BatchNormInputs wide = in_float64(inputs);
    const Outcome found = fused(input, residual, {given, grad}, inputs, Form::add_relu);
    check_equal(found, expected(input, residual, {given, grad}, wide, Form::add_relu), at::kHalf);
  }
}

void check_second_derivative(c10::Device device) {
  const ImageShape shape{2, 8, 5, 5};
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const auto twice = [&](const auto& forward, const BatchNormInputs& inputs) {
      const auto leaf = [&](uint64_t seed) {
        return test::random_images(shape, dtype, seed).to(device).set_requires_grad(true);
      };
      const at::Tensor x = leaf(17);
      const at::Tensor z = leaf(18);
      const at::Tensor grad = leaf(19);
      const auto first = torch::autograd::grad({forward(x, z, inputs)}, {x, inputs.weight}, {grad},
                                               /*retain_graph=*/true, /*create_graph=*/true);
      return torch::autograd::grad({first[0].square().sum() + first[1].square().sum()}, {x, grad});
    };
    const auto own = [](const at::Tensor& x, const at::Tensor& z, const BatchNormInputs& inputs) {
      return batch_norm_act_fused(x, z, inputs, true, 1)[0];
    };
    const auto stock = [](const at::Tensor& x, const at::Tensor& z, const BatchNormInputs& inputs) {
      return (test::stock_batch_norm(x, inputs) + z).relu();
    };
    const auto found = twice(own, test::batch_norm_inputs(shape.channels, dtype, device));
    const auto wanted = twice(stock, test::batch_norm_inputs(shape.channels, dtype, device));
    for (size_t i = 0; i < found.size(); ++i) CHECK(relative_error(found[i], wanted[i]) < 1e-4);
  }
}

void check_kernel_choice(c10::Device device) {
  const bool is_cuda = device.is_cuda();
  const auto chooses = [&](const at::Tensor& input, const BatchNormInputs& inputs) {
    return has_batch_norm_kernel(input, inputs);
  };
  const at::Tensor input = test::random_images({2, 16, 5, 5}, at::kHalf, 20).to(device);
  const BatchNormInputs inputs = test::batch_norm_inputs(16, at::kHalf, device);
  CHECK(chooses(input, inputs) == is_cuda);
  CHECK_FALSE(chooses(input.contiguous(), inputs));
  CHECK_FALSE(chooses(input.to(at::kDouble), inputs));
  CHECK_FALSE(chooses(input.narrow(1, 0, 12).contiguous(at::MemoryFormat::ChannelsLast),
                      test::batch_norm_inputs(12, at::kHalf, device)));
  CHECK_FALSE(chooses(test::random_images({1, 16, 1, 1}, at::kHalf, 21).to(device), inputs));
  CHECK_FALSE(chooses(test::random_images({1, 2056, 2, 2}, at::kHalf, 21).to(device),
                      test::batch_norm_inputs(2056, at::kHalf, device)));
  BatchNormInputs without = inputs;
  without.tickets = at::Tensor();
  CHECK_FALSE(chooses(input, without));
  // A residual of another type is left to PyTorch; the result stays in the input's.
  const auto mixed = batch_norm_add_relu(input, input.to(at::kFloat), inputs);
  CHECK(mixed.first.scalar_type() == at::kHalf);
}

}  // namespace

AMPCTL_DEVICE_TEST_CASE(check_forms, "Batch norm with what follows equals float64, forwards and backwards")
AMPCTL_DEVICE_TEST_CASE(check_readers, "Gradients of one reader, of the other and of both are added")
AMPCTL_DEVICE_TEST_CASE(check_public_functions,
                        "Every path of batch norm gives what PyTorch's operators give")
AMPCTL_DEVICE_TEST_CASE(check_untracked, "Batch norm needs no running statistics")
AMPCTL_DEVICE_TEST_CASE(check_cancellation, "Batch norm is as exact as PyTorch's far from zero")
AMPCTL_DEVICE_TEST_CASE(check_magnitudes, "Batch norm takes large and tiny numbers of every type")
AMPCTL_DEVICE_TEST_CASE(check_nonfinite, "Infs and NaNs pass through batch norm, ReLU and their gradients")
AMPCTL_DEVICE_TEST_CASE(check_grad_layouts, "Gradients and residuals of batch norm may lie in any layout")
AMPCTL_DEVICE_TEST_CASE(check_second_derivative, "Batch norm with what follows has a second derivative")
AMPCTL_DEVICE_TEST_CASE(check_kernel_choice,
                        "What batch norm's kernels do not take goes to PyTorch's operators")

TEST_CASE("Batch norm with what follows refuses what it cannot do") {
  const BatchNormInputs inputs = test::batch_norm_inputs(8, at::kFloat, at::kCPU);
  const at::Tensor input = test::random_images({2, 8, 3, 3}, at::kFloat, 22);
  CHECK_THROWS_AS(batch_norm_act(input[0], inputs, true), Error);
  CHECK_THROWS_AS(batch_norm_add_relu(input, input.narrow(2, 0, 2), inputs), Error);
  CHECK_THROWS_AS(batch_norm_act_fused(input, input, inputs, /*relu=*/false, 1), Error);
  CHECK_THROWS_AS(batch_norm_act_fused(input, {}, inputs, true, 3), Error);
}

#ifdef AMPCTL_WITH_CUDA
TEST_CASE("Batch norm repeats bit for bit and may run backwards more than once", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const ImageShape shape{16, 128, 29, 31};
  const at::Tensor input = test::random_images(shape, at::kHalf, 23).to(at::kCUDA);
  const at::Tensor grad = test::random_images(shape, at::kHalf, 24).to(at::kCUDA);
  const auto all = [&] {
    const BatchNormInputs inputs = test::batch_norm_inputs(shape.channels, at::kHalf, at::kCUDA);
    const Outcome found = fused(input, input, {grad, grad}, inputs, Form::add_relu);
    return std::vector{found.outputs[0],  found.outputs[1], found.grad_input,    found.grad_residual,
                       found.grad_weight, found.grad_bias,  inputs.running_mean, inputs.running_var};
  };
  const auto first = all();
  for (int i = 0; i < 5; ++i) {
    const auto again = all();
    for (size_t j = 0; j < first.size(); ++j) CHECK(at::equal(again[j], first[j]));
  }
  CHECK(first[0].data_ptr() == first[1].data_ptr());

  const BatchNormInputs inputs = test::batch_norm_inputs(shape.channels, at::kHalf, at::kCUDA);
  const at::Tensor x = input.detach().set_requires_grad(true);
  const at::Tensor output = batch_norm_act(x, inputs, true);
  const auto gradient = [&] {
    return torch::autograd::grad({output}, {x}, {grad}, /*retain_graph=*/true)[0];
  };
  const at::Tensor once = gradient();
  CHECK(at::equal(gradient(), once));
}

TEST_CASE("Batch norm reads nothing on the host and replays in a CUDA graph", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  for (const auto& shape : {ImageShape{4, 64, 15, 14}, {5, 64, 27, 26}}) {
    const at::Tensor grad = test::random_images(shape, at::kHalf, 25).to(at::kCUDA);
    const at::Tensor input = test::random_images(shape, at::kHalf, 26).to(at::kCUDA);
    const at::Tensor other = test::random_images(shape, at::kHalf, 27).to(at::kCUDA);
    const BatchNormInputs inputs = test::batch_norm_inputs(shape.channels, at::kHalf, at::kCUDA);
    const auto run = [&] { return fused(input, input, {grad, grad}, inputs, Form::add_relu); };
    {
      const test::NoSync no_sync;
      CHECK_NOTHROW(run());
    }
    Outcome found;
    test::Captured graph([&] { found = run(); });
    input.copy_(other);
    for (int replay = 0; replay < 3; ++replay) graph.replay();
    const Outcome wanted = expected(other, other, {grad, grad}, in_float64(inputs), Form::add_relu);
    check_equal(found, wanted, at::kHalf);
    CHECK(inputs.num_batches_tracked.item<int64_t>() == 8);
  }
}

TEST_CASE("Tickets made while a graph is captured are not kept", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const c10::Device device(c10::kCUDA, 0);
  at::Tensor kept;
  {
    const test::Captured graph([&] { CHECK(kernels::batch_norm_tickets(kept, device).defined()); });
  }
  CHECK_FALSE(kept.defined());
  CHECK(kernels::batch_norm_tickets(kept, device).is_same(kept));
  CHECK(kernels::batch_norm_tickets(kept, device).is_same(kept));
}
#endif
