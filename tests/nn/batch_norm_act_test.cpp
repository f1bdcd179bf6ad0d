#include "nn/batch_norm_act.h"

#include <functional>
#include <memory>
#include <string>

#include <ATen/ATen.h>

#include "base/error.h"
#include "nn/layer_tree.h"
#include "support/devices.h"

using namespace ampctl;

namespace {

constexpr int64_t kChannels = 16;

/// Layers that follow each other, with parameters that differ from channel to channel.
struct Layers {
  nn::BatchNorm2d norm{kChannels};
  nn::ReLU relu;
  nn::MaxPool2d pool{{.kernel_size = 3, .stride = 2, .padding = 1}};

  explicit Layers(c10::Device device) {
    at::manual_seed(1);
    const at::NoGradGuard no_grad;
    for (auto& parameter : norm.parameters()) parameter.uniform_(0.5, 1.5);
    norm.to(device);
  }
  void set_fused(bool value) {
    for (nn::Layer* layer :
         {static_cast<nn::Layer*>(&norm), static_cast<nn::Layer*>(&relu), static_cast<nn::Layer*>(&pool)}) {
      nn::set_fused(*layer, value);
    }
  }
  [[nodiscard]] at::Tensor buffer(const std::string& name) const { return norm.named_buffers()[name]; }
};

struct Call {
  std::string name;
  std::function<at::Tensor(Layers&, const at::Tensor&)> run;
};

const std::vector<Call> kCalls{
    {"norm", [](Layers& layers, const at::Tensor& x) { return layers.norm(x); }},
    {"norm_relu",
     [](Layers& layers, const at::Tensor& x) {
       return nn::norm_relu(layers.norm, layers.relu, {x, {}});
     }},
    {"norm_add_relu",
     [](Layers& layers, const at::Tensor& x) {
       return nn::norm_add_relu(layers.norm, layers.relu, {x, {}}, x.flip({0}).contiguous()).second;
     }},
    {"norm_relu_pool", [](Layers& layers, const at::Tensor& x) {
       return nn::norm_relu_pool(layers.norm, layers.relu, layers.pool, {x, {}}).first;
     }}};

at::Tensor images(c10::Device device, at::ScalarType dtype) {
  const at::Generator generator = at::detail::createCPUGenerator(2);
  return at::randn({3, kChannels, 9, 7}, generator, at::kFloat)
      .to(dtype)
      .to(device)
      .contiguous(at::MemoryFormat::ChannelsLast);
}

bool is_near(const at::Tensor& found, const at::Tensor& wanted) {
  const at::Tensor difference = found.to(at::kDouble) - wanted.to(at::kDouble);
  return (difference.norm() / wanted.to(at::kDouble).norm()).item<double>() < 1e-3;
}

struct Result {
  at::Tensor output;
  at::Tensor grad_weight;
  at::Tensor running_var;
  int64_t batches = 0;
};

Result run(const Call& call, Layers& layers, const at::Tensor& input) {
  const at::Tensor output = call.run(layers, input);
  output.to(at::kFloat).square().sum().backward();
  return {output.detach(), layers.norm.weight().grad(), layers.buffer("running_var"),
          layers.buffer("num_batches_tracked").item<int64_t>()};
}

void check_fused_equals_stock(c10::Device device) {
  const at::Tensor input = images(device, device.is_cuda() ? at::kHalf : at::kFloat);
  for (const bool training : {true, false}) {
    for (const auto& call : kCalls) {
      INFO(call.name << " training " << training);
      Layers fused(device);
      Layers stock(device);
      stock.set_fused(false);
      fused.norm.train(training);
      stock.norm.train(training);
      CHECK(fused.norm.fused_inputs({input, {}}).has_value() == (device.is_cuda() && training));
      CHECK_FALSE(stock.norm.fused_inputs({input, {}}).has_value());
      fused.buffer("num_batches_tracked").zero_();
      const Result found = run(call, fused, input);
      const Result wanted = run(call, stock, input);
      CHECK(found.output.scalar_type() == wanted.output.scalar_type());
      CHECK(is_near(found.output, wanted.output));
      CHECK(is_near(found.grad_weight, wanted.grad_weight));
      CHECK(is_near(found.running_var, wanted.running_var));
      CHECK(found.batches == (training ? 1 : 0));
      CHECK(wanted.batches == (training ? 1 : 0));
    }
  }
}

void check_forced_layers(c10::Device device) {
  const at::Tensor input = images(device, at::kBFloat16);
  for (const auto& call : kCalls) {
    for (const std::string forced : {"norm", "relu", "pool"}) {
      INFO(call.name << " with " << forced << " forced to float32");
      Layers layers(device);
      layers.norm.set_force_float32(forced == "norm");
      layers.relu.set_force_float32(forced == "relu");
      layers.pool.set_force_float32(forced == "pool");
      const bool takes_part = forced == "norm" || (forced == "relu" && call.name != "norm") ||
                              (forced == "pool" && call.name == "norm_relu_pool");
      const Result found = run(call, layers, input);
      CHECK(found.output.scalar_type() == (takes_part ? at::kFloat : at::kBFloat16));
      CHECK(found.batches == 1);
    }
  }
}

void check_synchronised(c10::Device device) {
  for (const auto& call : kCalls) {
    Layers layers(device);
    int sums = 0;
    layers.norm.set_sum_over_ranks([&](at::Tensor& /*values*/) { ++sums; });
    CHECK(run(call, layers, images(device, at::kFloat)).batches == 1);
    INFO(call.name);
    CHECK(sums > 0);
  }
}

void check_single_values(c10::Device device) {
  const at::Tensor input = images(device, at::kFloat).narrow(0, 0, 1).narrow(2, 0, 1).narrow(3, 0, 1);
  for (const auto& call : kCalls) {
    Layers layers(device);
    CHECK_THROWS_AS(call.run(layers, input), Error);
  }
}

}  // namespace

AMPCTL_DEVICE_TEST_CASE(check_fused_equals_stock,
                        "Batch norm and what follows give the same in one operator and one after the other")
AMPCTL_DEVICE_TEST_CASE(check_forced_layers, "A layer forced to float32 is never taken into an operator")
AMPCTL_DEVICE_TEST_CASE(check_synchronised, "Synchronised batch norms are never taken into an operator")
AMPCTL_DEVICE_TEST_CASE(check_single_values, "One value a channel is refused before any operator")
