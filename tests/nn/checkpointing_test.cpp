#include "nn/checkpointing.h"

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "amp/autocast.h"
#include "base/error.h"
#include "nn/batch_norm.h"
#include "nn/convolution.h"
#include "nn/layer_tree.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "nn/stateless.h"
#include "support/catch.h"
#include "support/devices.h"
#include "support/matchers.h"

using namespace ampctl;

namespace {

/// Records how it was run, and what became of a tensor that it made.
class Probe : public nn::Layer {
 public:
  struct Run {
    bool recomputing;
    bool autocast;
    bool cache;
    at::ScalarType autocast_dtype;
    at::ScalarType input_dtype;
  };
  std::vector<Run> runs;
  c10::weak_intrusive_ptr<c10::TensorImpl> made{c10::intrusive_ptr<c10::TensorImpl>()};
  size_t fails_in_run = 0;  // counted from 1

 protected:
  at::Tensor forward(const at::Tensor& input) override {
    runs.push_back({nn::is_recomputing(), at::autocast::is_autocast_enabled(at::kCPU),
                    at::autocast::is_autocast_cache_enabled(), at::autocast::get_autocast_dtype(at::kCPU),
                    input.scalar_type()});
    if (runs.size() == fails_in_run) throw std::runtime_error("probe");
    const at::Tensor activation = input * 2.0;
    made = activation.getIntrusivePtr();
    return activation.sin();  // keeps its argument for backward
  }
};

/// A careless layer: in place, and not saying so.
class InPlace : public nn::Layer {
 protected:
  at::Tensor forward(const at::Tensor& input) override { return at::Tensor(input).relu_(); }
};

/// A weight used inside and outside of a checkpointed layer.
class Twice : public nn::Layer {
 public:
  Twice() : linear_(std::make_shared<nn::Linear>(4, 4)) {
    inner_ = register_module("inner", std::make_shared<nn::Sequential>(std::vector<nn::LayerPtr>{linear_}));
  }

 protected:
  at::Tensor forward(const at::Tensor& input) override { return (*linear_)((*inner_)(input)); }

 private:
  nn::LayerPtr linear_;
  nn::LayerPtr inner_;
};

std::shared_ptr<nn::Sequential> sequential(std::vector<nn::LayerPtr> layers) {
  return std::make_shared<nn::Sequential>(std::move(layers));
}

nn::LayerPtr convolution(int64_t in_channels, int64_t out_channels) {
  return std::make_shared<nn::Conv2d>(nn::Conv2dOptions{
      .in_channels = in_channels, .out_channels = out_channels, .kernel_size = 3, .padding = 1});
}

/// Children 0 and 1 with convolutions, batch norm, ReLU and dropout; then a classifier.
nn::LayerPtr network() {
  at::manual_seed(1);
  const auto stage = [](int64_t in_channels, int64_t out_channels) {
    return sequential({convolution(in_channels, out_channels),
                       std::make_shared<nn::BatchNorm2d>(out_channels), std::make_shared<nn::ReLU>(),
                       std::make_shared<nn::Dropout>(0.3), convolution(out_channels, out_channels)});
  };
  return sequential({stage(3, 8), stage(8, 8), std::make_shared<nn::AdaptiveAvgPool2d>(),
                     std::make_shared<nn::Flatten>(), std::make_shared<nn::Linear>(8, 5)});
}

struct Setting {
  at::ScalarType autocast = at::kFloat;  ///< float32: none
  std::vector<std::string> checkpointed;
  std::vector<std::string> forced_float32;
  bool input_needs_gradient = false;
  c10::Device device = c10::kCPU;
};

/// Everything that two passes forward and backward leave behind, and the random numbers that come next.
std::vector<at::Tensor> passes(const Setting& setting) {
  at::globalContext().setDeterministicCuDNN(setting.device.is_cuda());
  const nn::LayerPtr model = network();
  nn::force_float32_modules(*model, setting.forced_float32);
  nn::checkpoint_activations(*model, setting.checkpointed);
  model->to(setting.device);
  at::manual_seed(2);
  std::vector<at::Tensor> left;
  for (int i = 0; i < 2; ++i) {
    const at::Tensor images = at::randn({4, 3, 6, 6}).to(setting.device);
    images.requires_grad_(setting.input_needs_gradient);
    at::Tensor loss;
    {
      const bool enabled = setting.autocast != at::kFloat;
      const amp::Autocast region(setting.device.type(), enabled ? setting.autocast : at::kBFloat16, enabled);
      loss = (*model)(images).to(at::kFloat).square().sum();
    }
    loss.backward();
    left.push_back(loss.detach());
    if (images.grad().defined()) left.push_back(images.grad());
  }
  for (const auto& parameter : model->parameters()) left.push_back(parameter.grad());
  for (const auto& buffer : model->buffers()) left.push_back(buffer);
  left.push_back(at::rand({4}));
  left.push_back(at::rand({4}, at::TensorOptions(setting.device)));
  return left;
}

void check_bit_equal(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& wanted) {
  REQUIRE(found.size() == wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    INFO(i << " of " << found.size());
    REQUIRE(found[i].defined());
    CHECK(at::equal(found[i], wanted[i]));
  }
}

void check_equal_to_plain(c10::Device device) {
  const std::vector<std::vector<std::string>> choices{{"0"}, {"1"}, {"0", "1"}, {"*"}, {"?.[034]", "4"}};
  for (const auto autocast : {at::kFloat, at::kBFloat16}) {
    for (const bool input_needs_gradient : {false, true}) {
      for (const bool forces : {false, true}) {
        Setting setting;
        setting.device = device;
        setting.autocast = autocast;
        setting.input_needs_gradient = input_needs_gradient;
        if (forces) setting.forced_float32 = {"1", "0.1"};
        const auto wanted = passes(setting);
        for (const auto& choice : choices) {
          INFO(autocast << " " << input_needs_gradient << " " << forces << " " << choice.front());
          setting.checkpointed = choice;
          check_bit_equal(passes(setting), wanted);
        }
      }
    }
  }
}

}  // namespace

AMPCTL_DEVICE_TEST_CASE(check_equal_to_plain,
                        "Checkpointing changes no bit of losses, gradients, statistics and random numbers")

TEST_CASE("A checkpointed layer keeps nothing of what it computes and runs again in backward") {
  for (const bool checkpoints : {false, true}) {
    const auto probe = std::make_shared<Probe>();
    probe->set_checkpoint_activations(checkpoints);
    const at::Tensor output = (*probe)(at::ones({3}).requires_grad_(true));
    CHECK(probe->made.expired() == checkpoints);
    CHECK(probe->runs.size() == 1);
    output.sum().backward();
    CHECK(probe->runs.size() == (checkpoints ? 2 : 1));
    CHECK_FALSE(probe->runs.front().recomputing);
    CHECK(probe->runs.back().recomputing == checkpoints);
    CHECK_FALSE(nn::is_recomputing());
  }
}

TEST_CASE("Of checkpointed layers inside each other the outermost counts") {
  const auto probe = std::make_shared<Probe>();
  const auto model = sequential({sequential({sequential({probe}), std::make_shared<Probe>()})});
  nn::checkpoint_activations(*model, {"*"});
  (*model)(at::ones({3}).requires_grad_(true)).sum().backward();
  CHECK(probe->runs.size() == 2);
}

TEST_CASE("A checkpointed layer runs once where no gradients are recorded or wanted") {
  const auto probe = std::make_shared<Probe>();
  probe->set_checkpoint_activations(true);
  {
    const at::NoGradGuard no_grad;
    (*probe)(at::ones({3}).requires_grad_(true));
  }
  CHECK_FALSE((*probe)(at::ones({3})).requires_grad());
  CHECK(probe->runs.size() == 2);
}

TEST_CASE("The second run sees the autocast state of the first, wherever backward is called") {
  const auto probe = std::make_shared<Probe>();
  const auto model = sequential({probe});
  model->set_checkpoint_activations(true);
  for (const bool forced : {false, true}) {
    probe->runs.clear();
    model->set_force_float32(forced);
    at::Tensor output;
    {
      const amp::Autocast region(at::kCPU, at::kHalf);
      output = (*model)(at::ones({3}, at::kBFloat16).requires_grad_(true));
    }
    const amp::Autocast elsewhere(at::kCPU, at::kBFloat16, /*enabled=*/forced, /*cache_enabled=*/false);
    output.sum().backward();
    REQUIRE(probe->runs.size() == 2);
    for (const auto& run : probe->runs) {
      CHECK(run.autocast == !forced);
      CHECK(run.autocast_dtype == at::kHalf);
      CHECK(run.input_dtype == (forced ? at::kFloat : at::kBFloat16));
    }
    CHECK(probe->runs.back().cache);
    CHECK(at::autocast::is_autocast_enabled(at::kCPU) == forced);
    CHECK(at::autocast::get_autocast_dtype(at::kCPU) == at::kBFloat16);
    CHECK_FALSE(at::autocast::is_autocast_cache_enabled());
  }
}

TEST_CASE(
    "A second run that fails leaves autocast, random numbers and the mark of a second run as they were") {
  const auto probe = std::make_shared<Probe>();
  probe->set_checkpoint_activations(true);
  probe->fails_in_run = 2;
  at::Tensor output;
  {
    const amp::Autocast region(at::kCPU, at::kBFloat16);
    output = (*probe)(at::ones({3}).requires_grad_(true));
  }
  at::manual_seed(5);
  const at::Tensor next = at::rand({2});
  at::manual_seed(5);
  CHECK_THROWS_WITH(output.sum().backward(), "probe");
  CHECK_FALSE(nn::is_recomputing());
  CHECK_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  CHECK(at::equal(at::rand({2}), next));
}

TEST_CASE("A weight used inside and outside of a checkpointed layer gets both gradients under autocast") {
  const auto gradient = [](bool checkpoints) {
    at::manual_seed(3);
    const auto model = std::make_shared<Twice>();
    if (checkpoints) nn::checkpoint_activations(*model, {"inner"});
    at::Tensor loss;
    {
      const amp::Autocast region(at::kCPU, at::kBFloat16);
      loss = (*model)(at::randn({3, 4})).sum();
    }
    loss.backward();
    return model->parameters()[0].grad().clone();
  };
  CHECK(at::allclose(gradient(true), gradient(false), 1e-2, 1e-2));
}

TEST_CASE("Checkpointed layers have second derivatives and take a second backward pass") {
  const auto derivatives = [](bool checkpoints) {
    at::manual_seed(4);
    const auto model = sequential(
        {std::make_shared<nn::Linear>(4, 4), std::make_shared<Probe>(), std::make_shared<nn::Linear>(4, 1)});
    const auto root = sequential({model});
    if (checkpoints) nn::checkpoint_activations(*root, {"0"});
    const at::Tensor x = at::randn({3, 4}).requires_grad_(true);
    const at::Tensor output = (*root)(x.sin()).sum();
    const at::Tensor first = torch::autograd::grad({output}, {x}, {}, /*retain_graph=*/true,
                                                   /*create_graph=*/true)[0];
    std::vector<at::Tensor> all{first.detach()};
    first.square().sum().backward(/*gradient=*/{}, /*retain_graph=*/true);
    output.backward();
    all.push_back(x.grad());
    for (const auto& parameter : root->parameters()) {
      if (parameter.grad().defined()) all.push_back(parameter.grad());
    }
    return all;
  };
  const auto found = derivatives(true);
  const auto wanted = derivatives(false);
  REQUIRE(found.size() == wanted.size());
  for (size_t i = 0; i < found.size(); ++i) CHECK(at::allclose(found[i], wanted[i], 1e-5, 1e-6));
}

TEST_CASE("Synchronised batch norms update their statistics once when they are checkpointed") {
  const auto statistics = [](bool checkpoints) {
    const nn::LayerPtr model = network();
    nn::convert_sync_batch_norm(*model, [](at::Tensor& /*sums*/) {});
    if (checkpoints) nn::checkpoint_activations(*model, {"0", "1"});
    at::manual_seed(6);
    (*model)(at::randn({4, 3, 6, 6})).square().sum().backward();
    std::vector<at::Tensor> all = model->buffers();
    for (const auto& parameter : model->parameters()) all.push_back(parameter.grad());
    return all;
  };
  check_bit_equal(statistics(true), statistics(false));
}

TEST_CASE("A checkpointed layer in evaluation normalises by the running statistics in both runs") {
  const auto gradients = [](bool checkpoints) {
    const nn::LayerPtr model = network();
    if (checkpoints) nn::checkpoint_activations(*model, {"*"});
    at::manual_seed(7);
    for (auto& buffer : model->buffers()) {
      if (buffer.is_floating_point()) buffer.uniform_(0.5, 1.5);
    }
    model->eval();
    (*model)(at::randn({4, 3, 6, 6})).square().sum().backward();
    std::vector<at::Tensor> all = model->buffers();
    for (const auto& parameter : model->parameters()) all.push_back(parameter.grad());
    return all;
  };
  check_bit_equal(gradients(true), gradients(false));
}

TEST_CASE("Parameters without a gradient stay without one, and the graph keeps a checkpointed layer alive") {
  auto layer = std::make_shared<nn::Linear>(3, 2);
  const auto parameters = layer->parameters();
  parameters[0].requires_grad_(false);
  layer->set_checkpoint_activations(true);
  const at::Tensor output = (*layer)(at::ones({4, 3}));
  layer.reset();
  output.sum().backward();
  CHECK_FALSE(parameters[0].grad().defined());
  CHECK(at::equal(parameters[1].grad(), at::full({2}, 4.0)));
}

TEST_CASE("A checkpointed layer that works in place without saying so is refused") {
  const auto layer = std::make_shared<InPlace>();
  layer->set_checkpoint_activations(true);
  const at::Tensor input = at::ones({3}).requires_grad_(true) * 2.0;
  CHECK_THROWS_WITH((*layer)(input), test::ContainsSubstring("changes its input"));
}

TEST_CASE("A pattern of activation_checkpointing that matches nothing is an error naming the nearest layer") {
  const nn::LayerPtr model = network();
  std::string message;
  try {
    nn::checkpoint_activations(*model, {"0.00"});
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::usage);
    message = error.what();
  }
  INFO(message);
  CHECK(message.find("train.activation_checkpointing: no layer matches '0.00'") != std::string::npos);
  CHECK(message.find("did you mean '0.0'?") != std::string::npos);
}

TEST_CASE("A model with checkpointed dropout says why it cannot be captured") {
  const nn::LayerPtr model = network();
  CHECK_FALSE(nn::capture_obstacle(*model));
  nn::checkpoint_activations(*model, {"0.[01]", "4"});
  CHECK_FALSE(nn::capture_obstacle(*model));
  nn::checkpoint_activations(*model, {"1"});
  REQUIRE(nn::capture_obstacle(*model));
  CHECK(nn::capture_obstacle(*model)->find("layer '1'") != std::string::npos);
}
