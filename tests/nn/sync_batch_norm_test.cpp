#include "nn/sync_batch_norm.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/Context.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>

#include "amp/autocast.h"
#include "nn/batch_norm.h"
#include "nn/convolution.h"
#include "nn/layer_tree.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "nn/stateless.h"
#include "support/catch.h"
#include "support/emulated_ranks.h"
#include "support/skip.h"

using namespace ampctl;

namespace {

constexpr int64_t kChannels = 3;
constexpr int64_t kSize = 5;

struct Case {
  std::vector<int64_t> counts;  // samples a rank
  at::ScalarType type = at::kFloat;
  double tolerance = 0;
  at::MemoryFormat format = at::MemoryFormat::Contiguous;
  bool autocast = false;
};

double relative_error(const at::Tensor& found, const at::Tensor& expected) {
  const at::Tensor reference = expected.to(at::kDouble);
  return ((found.to(at::kDouble) - reference).norm() / reference.norm()).item<double>();
}

// Weights and bias that differ by channel, the same for every call.
std::shared_ptr<nn::BatchNorm2d> make_norm(at::ScalarType type) {
  auto norm = std::make_shared<nn::BatchNorm2d>(kChannels);
  const at::NoGradGuard no_grad;
  norm->named_parameters()["weight"].copy_(at::tensor({0.5, 2.0, -1.0}));
  norm->named_parameters()["bias"].copy_(at::tensor({1.0, 0.0, -3.0}));
  norm->to(type == at::kDouble ? at::kDouble : at::kFloat);
  return norm;
}

struct Pass {
  at::Tensor output;
  at::Tensor grad_input;
};

Pass run_layer(nn::Layer& layer, const at::Tensor& input, const at::Tensor& grad_output,
               bool autocast = false) {
  const at::Tensor x = input.detach().clone().requires_grad_();
  at::Tensor y;
  {
    const amp::Autocast region(input.device().type(), at::kBFloat16, autocast);
    y = layer(x);
  }
  y.backward(grad_output);
  return {y.detach(), x.grad()};
}

std::vector<at::Tensor> split(const at::Tensor& joined, const Case& setup) {
  return joined.split_with_sizes(setup.counts, 0);
}

void expect_joined_batch_norm(const Case& setup) {
  at::manual_seed(21);
  int64_t total = 0;
  for (const int64_t count : setup.counts) total += count;
  const auto random = [&] {
    return at::randn({total, kChannels, kSize, kSize}, at::kDouble).to(setup.type).contiguous(setup.format);
  };
  const auto joined = make_norm(setup.type);
  std::vector<std::shared_ptr<nn::BatchNorm2d>> norms;
  test::EmulatedRanks ranks(setup.counts.size());
  for (size_t rank = 0; rank < setup.counts.size(); ++rank) {
    norms.push_back(make_norm(setup.type));
    norms.back()->set_sum_over_ranks(ranks.sum_of(rank));
  }
  constexpr int kSteps = 2;
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor input = random() * (step + 1);
    const at::Tensor grad_output = random();
    const auto inputs = split(input, setup);
    const auto grad_outputs = split(grad_output, setup);
    std::vector<Pass> passes(norms.size());
    ranks.run([&](size_t rank) {
      passes[rank] = run_layer(*norms[rank], inputs[rank], grad_outputs[rank], setup.autocast);
    });
    const Pass expected = run_layer(*joined, input, grad_output, setup.autocast);

    std::vector<at::Tensor> outputs;
    std::vector<at::Tensor> grad_inputs;
    for (const auto& pass : passes) {
      CHECK(pass.output.scalar_type() == setup.type);
      if (pass.output.numel() > 0) CHECK(pass.output.is_contiguous(setup.format));
      outputs.push_back(pass.output);
      grad_inputs.push_back(pass.grad_input);
    }
    CHECK(relative_error(at::cat(outputs), expected.output) < setup.tolerance);
    CHECK(relative_error(at::cat(grad_inputs), expected.grad_input) < setup.tolerance);
  }
  CHECK(ranks.sums() == 2 * kSteps);
  for (const char* name : {"weight", "bias"}) {
    INFO(name);
    at::Tensor sum = at::zeros({kChannels}, at::kDouble);
    for (const auto& norm : norms) sum += norm->named_parameters()[name].grad().to(at::kDouble);
    CHECK(relative_error(sum, joined->named_parameters()[name].grad()) < setup.tolerance);
  }
  for (const auto& norm : norms) {
    for (const auto& expected : joined->named_buffers()) {
      INFO(expected.key());
      CHECK(relative_error(norm->named_buffers()[expected.key()], expected.value()) < setup.tolerance);
    }
  }
}

}  // namespace

// Batch norm itself is checked against Python's; it on the joined batch is the definition of this one.
TEST_CASE(
    "Synchronised batch norm is batch norm of the joined batch: output, gradients, running statistics") {
  constexpr double kFloat64 = 1e-13;
  constexpr double kFloat32 = 1e-6;
  const auto last = at::MemoryFormat::ChannelsLast;
  SECTION("equal counts, float64") { expect_joined_batch_norm({{4, 4}, at::kDouble, kFloat64}); }
  SECTION("unequal counts, float64") { expect_joined_batch_norm({{5, 1, 2}, at::kDouble, kFloat64}); }
  SECTION("an empty rank, float64") { expect_joined_batch_norm({{3, 0, 2}, at::kDouble, kFloat64}); }
  SECTION("unequal counts, float32, channels last") {
    expect_joined_batch_norm({{5, 1, 2}, at::kFloat, kFloat32, last});
  }
  SECTION("an empty rank, float32, channels last") {
    expect_joined_batch_norm({{0, 4, 3}, at::kFloat, kFloat32, last});
  }
}

TEST_CASE("Synchronised batch norm takes 16-bit input beside float32 weights, as batch norm does") {
  // Outputs and gradients have 8 or 11 significant bits.
  expect_joined_batch_norm({{4, 1}, at::kBFloat16, 0x1p-8});
  expect_joined_batch_norm({{4, 1}, at::kHalf, 0x1p-11, at::MemoryFormat::ChannelsLast});
}

TEST_CASE("Under autocast synchronised batch norm keeps its input's type and its float32 sums") {
  expect_joined_batch_norm({{4, 1}, at::kBFloat16, 0x1p-8, at::MemoryFormat::ChannelsLast, true});
  expect_joined_batch_norm({{4, 1}, at::kFloat, 1e-6, at::MemoryFormat::Contiguous, true});
}

TEST_CASE("A mean a thousand times the deviation costs synchronised batch norm no digits") {
  at::manual_seed(4);
  constexpr double kMean = 1000;
  const at::Tensor input = (at::randn({8, kChannels, 16, 16}) + kMean).to(at::kFloat);
  const auto norm = make_norm(at::kDouble);
  (*norm)(input.to(at::kDouble));
  const at::Tensor expected = norm->named_buffers()["running_var"];

  test::EmulatedRanks ranks(2);
  ranks.run([&](size_t rank) {
    const auto mine = make_norm(at::kFloat);
    mine->set_sum_over_ranks(ranks.sum_of(rank));
    (*mine)(rank == 0 ? input.narrow(0, 0, 3) : input.narrow(0, 3, 5));
    // Squares joined in float32 would be wrong by some percent: 1000^2 * 2^-24 beside a variance of 1.
    if (relative_error(mine->named_buffers()["running_var"], expected) > 1e-6) {
      throw std::runtime_error("the joint variance lost its digits");
    }
  });
}

TEST_CASE(
    "A whole model of synchronised batch norms has the joined batch's gradients, also beside an empty rank") {
  at::manual_seed(8);
  const auto make_model = [] {
    at::manual_seed(9);
    auto norm = std::make_shared<nn::BatchNorm2d>(4);
    auto model = std::make_shared<nn::Sequential>(std::vector<nn::LayerPtr>{
        std::make_shared<nn::Conv2d>(nn::Conv2dOptions{kChannels, 4, 3}), norm, std::make_shared<nn::ReLU>(),
        std::make_shared<nn::Conv2d>(nn::Conv2dOptions{4, 4, 3}), std::make_shared<nn::BatchNorm2d>(4),
        std::make_shared<nn::MaxPool2d>(), std::make_shared<nn::AdaptiveAvgPool2d>(),
        std::make_shared<nn::Flatten>(), std::make_shared<nn::Linear>(4, 2)});
    model->to(at::kDouble);
    return model;
  };
  const std::vector<int64_t> counts{3, 0, 2};
  const at::Tensor images = at::randn({5, kChannels, 12, 12}, at::kDouble);
  const at::Tensor grads = at::randn({5, 2}, at::kDouble);
  const auto joined = make_model();
  (*joined)(images).backward(grads);

  std::vector<nn::LayerPtr> models;
  test::EmulatedRanks ranks(counts.size());
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    models.push_back(make_model());
    CHECK(nn::convert_sync_batch_norm(*models.back(), ranks.sum_of(rank)) == 2);
  }
  const auto inputs = images.split_with_sizes(counts, 0);
  const auto grad_outputs = grads.split_with_sizes(counts, 0);
  ranks.run([&](size_t rank) { (*models[rank])(inputs[rank]).backward(grad_outputs[rank]); });
  for (const auto& parameter : joined->named_parameters()) {
    INFO(parameter.key());
    at::Tensor sum = at::zeros_like(parameter.value());
    for (const auto& model : models) sum += model->named_parameters()[parameter.key()].grad();
    // A convolution's bias in front of a norm has the gradient 0, up to rounding.
    CHECK(at::allclose(sum, parameter.value().grad(), /*rtol=*/1e-9, /*atol=*/1e-12));
  }
}

TEST_CASE("Converting keeps names and tensors, and evaluation as it was, without a word between ranks") {
  auto norm = make_norm(at::kFloat);
  nn::Sequential model({std::make_shared<nn::Conv2d>(nn::Conv2dOptions{2, kChannels, 1}), norm});
  const at::Tensor images = at::randn({2, 2, kSize, kSize});
  model.eval();
  const at::Tensor expected = model(images);
  const auto parameters = model.named_parameters();
  const auto buffers = model.named_buffers();

  CHECK(nn::convert_sync_batch_norm(
            model, [](at::Tensor&) { throw std::runtime_error("evaluation asked the other ranks"); }) == 1);
  CHECK(norm->is_synchronised());
  CHECK(nn::norm_parameter_names(model) == std::vector<std::string>{"1.weight", "1.bias"});
  for (const auto& item : model.named_parameters()) CHECK(item.value().is_same(parameters[item.key()]));
  for (const auto& item : model.named_buffers()) CHECK(item.value().is_same(buffers[item.key()]));
  CHECK(at::equal(model(images), expected));
}

TEST_CASE("What the sum over ranks throws comes out of forward and of backward") {
  const auto norm = make_norm(at::kFloat);
  int sums = 0;
  norm->set_sum_over_ranks([&](at::Tensor&) {
    if (++sums == 2) throw std::out_of_range("peer lost");
  });
  const at::Tensor x = at::randn({2, kChannels, kSize, kSize}).requires_grad_();
  const at::Tensor loss = (*norm)(x).sum();
  CHECK_THROWS_AS(loss.backward(), std::out_of_range);
  norm->set_sum_over_ranks([](at::Tensor&) { throw std::out_of_range("peer lost"); });
  CHECK_THROWS_AS((*norm)(x), std::out_of_range);
}

TEST_CASE("On a GPU synchronised batch norm is batch norm of the joined batch in every type and order",
          "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  struct GpuCase {
    at::ScalarType type;
    double tolerance;
  };
  for (const auto& [type, tolerance] :
       {GpuCase{at::kDouble, 1e-12}, {at::kFloat, 1e-5}, {at::kHalf, 0x1p-10}, {at::kBFloat16, 0x1p-7}}) {
    for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      INFO(c10::toString(type) << ' ' << static_cast<int>(format));
      const auto images = [&, dtype = type] {
        return at::randn({6, kChannels, 8, 8}, at::TensorOptions().device(at::kCUDA).dtype(dtype))
            .contiguous(format);
      };
      const at::Tensor input = images();
      const at::Tensor grad_output = images();
      const auto joined = make_norm(type);
      const auto norm = make_norm(type);
      joined->to(at::kCUDA);
      norm->to(at::kCUDA);
      // The other rank holds the same images.
      norm->set_sum_over_ranks([](at::Tensor& tensor) { tensor.mul_(2); });
      const Pass expected =
          run_layer(*joined, at::cat({input, input}), at::cat({grad_output, grad_output}), /*autocast=*/true);
      const Pass found = run_layer(*norm, input, grad_output, /*autocast=*/true);
      CHECK(found.output.scalar_type() == type);
      CHECK(found.output.is_contiguous(format));
      CHECK(relative_error(found.output, expected.output.narrow(0, 0, 6)) < tolerance);
      CHECK(relative_error(found.grad_input, expected.grad_input.narrow(0, 0, 6)) < tolerance);
      for (const char* name : {"weight", "bias"}) {
        CHECK(relative_error(norm->named_parameters()[name].grad() * 2,
                             joined->named_parameters()[name].grad()) < tolerance);
      }
      for (const char* name : {"running_mean", "running_var"}) {
        CHECK(relative_error(norm->named_buffers()[name], joined->named_buffers()[name]) < tolerance);
      }
    }
  }
}
