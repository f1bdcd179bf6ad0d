#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"
#include "nn/batch_norm.h"
#include "nn/convolution.h"
#include "nn/layer_tree.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "nn/stateless.h"
#include "support/catch.h"
#include "support/reference_file.h"
#include "support/skip.h"

using namespace ampctl;

namespace {

at::Tensor named(const nn::Layer& layer, const std::string& name) {
  const auto parameters = layer.named_parameters();
  return parameters.contains(name) ? parameters[name] : layer.named_buffers()[name];
}

}  // namespace

TEST_CASE("Layers are initialised and compute as their namesakes in torch.nn") {
  if (!test::python_has({"torch", "safetensors"})) return test::skip("Python has no torch or safetensors");
  const test::TempDir folder;
  const auto path = folder.path() / "nn.safetensors";
  test::run_reference("nn_reference.py", {path.string()});
  const auto reference = test::read_tensors(path);
  const auto equals = [&](const at::Tensor& tensor, const std::string& name) {
    INFO(name);
    CHECK(at::equal(tensor, reference.at(name)));
  };
  const at::Tensor& image = reference.at("image");

  at::manual_seed(11);
  nn::Conv2d conv({.in_channels = 3, .out_channels = 8, .kernel_size = 3, .stride = 2, .padding = 1});
  nn::Linear linear(20, 7);
  equals(named(conv, "weight"), "conv.weight");
  equals(named(conv, "bias"), "conv.bias");
  equals(named(linear, "weight"), "linear.weight");
  equals(named(linear, "bias"), "linear.bias");
  equals(conv(image), "conv.output");
  equals(linear(reference.at("linear.input")), "linear.output");

  nn::MaxPool2d maxpool({.kernel_size = 3, .stride = 2, .padding = 1});
  equals(maxpool(image), "maxpool.output");
  nn::AdaptiveAvgPool2d avgpool;
  equals(avgpool(image), "avgpool.output");

  nn::BatchNorm2d norm(3);
  for (int step = 0; step < 3; ++step) {
    equals(norm(image * (step + 1) + step), "norm.output" + std::to_string(step));
  }
  for (const char* name : {"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}) {
    equals(named(norm, name), std::string("norm.") + name);
  }
  norm.eval();
  equals(norm(image), "norm.eval_output");
  CHECK(named(norm, "num_batches_tracked").item<int64_t>() == 3);

  at::manual_seed(5);
  nn::Dropout dropout(0.3);
  equals(dropout(at::ones({1000})), "dropout.output");
}

TEST_CASE("Batch norm reads and updates buffers that were re-pointed into one flat arena") {
  nn::BatchNorm2d norm(3);
  at::Tensor arena = at::zeros({7});
  auto buffers = norm.named_buffers();
  buffers["running_mean"].set_data(arena.narrow(0, 0, 3));
  buffers["running_var"].set_data(arena.narrow(0, 3, 3));
  arena.narrow(0, 3, 3).fill_(1);
  at::Tensor counters = at::zeros({2}, at::kLong);
  buffers["num_batches_tracked"].set_data(counters[1]);

  // Source of the rule: torch.nn.BatchNorm2d, running = 0.9 running + 0.1 batch, variance unbiased.
  const at::Tensor input = at::randn({4, 3, 5, 5});
  norm(input);
  const at::Tensor rows = input.transpose(0, 1).reshape({3, -1});
  CHECK(at::allclose(arena.narrow(0, 0, 3), 0.1 * rows.mean(1)));
  CHECK(at::allclose(arena.narrow(0, 3, 3), 0.9 + 0.1 * rows.var(1, /*unbiased=*/true)));
  CHECK(arena[6].item<float>() == 0.0F);
  CHECK(counters[1].item<int64_t>() == 1);

  norm.eval();
  arena.fill_(4);
  const at::Tensor expected = (input - 4) / std::sqrt(4 + 1e-5);
  CHECK(at::allclose(norm(input), expected, /*rtol=*/1e-5, /*atol=*/1e-6));
}

TEST_CASE("Batch norm refuses to train on one value a channel and leaves its buffers alone") {
  nn::BatchNorm2d norm(3);
  const at::Tensor single = at::ones({1, 3, 1, 1});
  try {
    norm(single);
    FAIL("expected an error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::usage);
    CHECK(std::string(error.what()).find("[1, 3, 1, 1]") != std::string::npos);
  }
  CHECK(at::equal(named(norm, "running_var"), at::ones({3})));
  CHECK(named(norm, "num_batches_tracked").item<int64_t>() == 0);
  norm.eval();
  CHECK(norm(single).isfinite().all().item<bool>());
}

TEST_CASE("Dropout draws nothing in evaluation or with probability 0 and refuses what is no probability") {
  at::manual_seed(1);
  const at::Tensor expected = at::rand({4});
  const at::Tensor ones = at::ones({100});
  at::manual_seed(1);
  nn::Dropout half(0.5);
  half.eval();
  CHECK(at::equal(half(ones), ones));
  nn::Dropout none(0.0);
  CHECK(at::equal(none(ones), ones));
  CHECK(at::equal(at::rand({4}), expected));
  for (const double p : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK_THROWS_AS(nn::Dropout(p), Error);
  }
}

TEST_CASE("Sequential runs its layers in order, names them by position and passes the mode on") {
  auto linear = std::make_shared<nn::Linear>(2, 3);
  auto dropout = std::make_shared<nn::Dropout>(0.9);
  nn::Sequential model({linear, std::make_shared<nn::ReLU>(), dropout});
  CHECK(model.named_parameters().keys() == std::vector<std::string>{"0.weight", "0.bias"});
  model.eval();
  CHECK_FALSE(dropout->is_training());
  const at::Tensor input = at::randn({4, 2});
  const at::Tensor expected =
      (at::matmul(input, named(*linear, "weight").t()) + named(*linear, "bias")).clamp_min(0);
  CHECK(at::allclose(model(input), expected));
}

TEST_CASE("norm_parameter_names lists the parameters of normalisation layers and nothing else") {
  const auto conv = [] { return std::make_shared<nn::Conv2d>(nn::Conv2dOptions{3, 4, 1}); };
  auto inner = std::make_shared<nn::Sequential>(
      std::vector<nn::LayerPtr>{conv(), std::make_shared<nn::BatchNorm2d>(4)});
  nn::Sequential model({conv(), inner, std::make_shared<nn::Linear>(4, 2)});
  CHECK(nn::norm_parameter_names(model) == std::vector<std::string>{"1.1.weight", "1.1.bias"});
  nn::BatchNorm2d alone(4);
  CHECK(nn::norm_parameter_names(alone) == std::vector<std::string>{"weight", "bias"});
}

TEST_CASE("to_channels_last changes the memory order of image weights alone, also for 1x1 kernels") {
  auto wide = std::make_shared<nn::Conv2d>(nn::Conv2dOptions{3, 4, 3});
  auto point = std::make_shared<nn::Conv2d>(nn::Conv2dOptions{4, 5, 1});
  nn::Sequential model({wide, point, std::make_shared<nn::AdaptiveAvgPool2d>(),
                        std::make_shared<nn::Flatten>(), std::make_shared<nn::Linear>(5, 2)});
  const at::Tensor before = named(*wide, "weight").clone();
  const at::Tensor image = at::randn({2, 3, 8, 8});
  const at::Tensor expected = model(image);
  nn::to_channels_last(model);
  CHECK(at::equal(named(*wide, "weight"), before));
  // Channels last is N, H, W, C in memory.
  CHECK(named(*wide, "weight").strides() == at::IntArrayRef{27, 1, 9, 3});
  CHECK(named(*point, "weight").strides() == at::IntArrayRef{4, 1, 4, 4});
  CHECK(named(model, "4.weight").is_contiguous());

  const at::Tensor output = model(image.contiguous(at::MemoryFormat::ChannelsLast));
  CHECK(at::allclose(output, expected, /*rtol=*/1e-4, /*atol=*/1e-6));
  CHECK((*wide)(image.contiguous(at::MemoryFormat::ChannelsLast))
            .is_contiguous(at::MemoryFormat::ChannelsLast));
  output.sum().backward();
  CHECK(named(*wide, "weight").grad().strides() == at::IntArrayRef{27, 1, 9, 3});
}
