// Residual networks on operators of this project beside the same on PyTorch's.
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "amp/autocast.h"
#include "amp/precision.h"
#include "model/models.h"
#include "nn/batch_norm.h"
#include "nn/layer_tree.h"
#include "support/catch.h"
#include "support/skip.h"

using namespace ampctl;

namespace {

constexpr int64_t kBatch = 16;
constexpr int64_t kClasses = 10;

struct Step {
  double loss = 0;
  std::map<std::string, at::Tensor> tensors;  // gradients and buffers, float64 on the CPU
};

struct Setting {
  std::string model;
  bool fused = true;
  bool autocast = false;
  c10::Device device = at::kCPU;
  std::vector<std::string> forced{};
  at::ScalarType dtype = at::kFloat;  // of parameters and images
};

Step step(const Setting& setting) {
  config::ModelConfig config;
  config.name = setting.model;
  config.fused = setting.fused;
  at::manual_seed(3);
  const auto model = model::make_model(config, {3, 64, 64}, kClasses);
  nn::force_float32_modules(*model, setting.forced);
  const at::Tensor input = at::randn({kBatch, 3, 64, 64}).to(setting.device, setting.dtype);
  model->to(setting.device, setting.dtype);
  nn::to_channels_last(*model);
  const at::Tensor targets = at::arange(kBatch).remainder(kClasses).to(setting.device);
  at::Tensor output;
  {
    const amp::Autocast region(setting.device.type(), at::kHalf, setting.autocast);
    output = (*model)(input.contiguous(at::MemoryFormat::ChannelsLast));
  }
  // Scaled as in training, so that float16 gradients stay above its smallest numbers.
  constexpr double kScale = 1024.0;
  const at::Tensor loss =
      at::cross_entropy_loss(output.to(at::promote_types(output.scalar_type(), at::kFloat)), targets);
  (loss * kScale).backward();
  Step made{loss.item<double>(), {}};
  for (const auto& parameter : model->named_parameters()) {
    made.tensors["gradient of " + parameter.key()] = parameter.value().grad().cpu().to(at::kDouble) / kScale;
  }
  for (const auto& buffer : model->named_buffers()) {
    made.tensors[buffer.key()] = buffer.value().cpu().to(at::kDouble);
  }
  return made;
}

/// |found - wanted| / |wanted| over all gradients together.
double gradient_error(const Step& found, const Step& wanted) {
  double difference = 0;
  double size = 0;
  for (const auto& [name, tensor] : wanted.tensors) {
    if (name.rfind("gradient", 0) != 0) continue;
    difference += (found.tensors.at(name) - tensor).square().sum().item<double>();
    size += tensor.square().sum().item<double>();
  }
  return std::sqrt(difference / size);
}

/// Convolutions in full float32: TF32 would differ from choice to choice of algorithm.
void switch_tf32_off() { amp::apply({.allow_tf32 = false}); }

Step in_float64(const std::string& model) { return step({model, false, false, at::kCUDA, {}, at::kDouble}); }

const std::vector<std::string> kModels{"resnet18", "resnet50"};

}  // namespace

TEST_CASE("Without a GPU the fused models are the stock ones, bit by bit") {
  const Step fused = step({"resnet18", true, false, at::kCPU});
  const Step stock = step({"resnet18", false, false, at::kCPU});
  CHECK(fused.loss == stock.loss);
  for (const auto& [name, tensor] : stock.tensors) {
    INFO(name);
    CHECK(at::equal(fused.tensors.at(name), tensor));
  }
}

TEST_CASE("model.fused reaches every layer") {
  for (const bool fused : {true, false}) {
    config::ModelConfig config;
    config.name = "resnet18";
    config.fused = fused;
    const auto model = model::make_model(config, {3, 32, 32}, kClasses);
    for (const auto& module : model->modules()) {
      CHECK(dynamic_cast<const nn::Layer&>(*module).fused() == fused);
    }
  }
}

TEST_CASE("Fused models are as exact as stock ones in float32", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  switch_tf32_off();
  for (const auto& name : kModels) {
    INFO(name);
    const Step wanted = in_float64(name);
    const Step fused = step({name, true, false, at::kCUDA});
    const Step stock = step({name, false, false, at::kCUDA});
    CHECK(std::abs(fused.loss - wanted.loss) < 1e-5 * wanted.loss);
    CHECK(gradient_error(fused, wanted) < 1.5 * gradient_error(stock, wanted) + 1e-4);
    for (const auto& [buffer, tensor] : wanted.tensors) {
      if (buffer.rfind("gradient", 0) == 0) continue;
      INFO(buffer);
      CHECK(at::allclose(fused.tensors.at(buffer), tensor, /*rtol=*/1e-4, /*atol=*/1e-5));
    }
  }
}

TEST_CASE("Fused models are as exact as stock ones under float16 autocast", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  switch_tf32_off();
  for (const auto& name : kModels) {
    INFO(name);
    const Step wanted = in_float64(name);
    const Step fused = step({name, true, true, at::kCUDA});
    const Step stock = step({name, false, true, at::kCUDA});
    CHECK(std::abs(fused.loss - wanted.loss) < 2 * std::abs(stock.loss - wanted.loss) + 1e-2);
    CHECK(gradient_error(fused, wanted) < 1.5 * gradient_error(stock, wanted) + 1e-3);
  }
}

TEST_CASE("Layers of fused models can be forced to float32 one by one", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  switch_tf32_off();
  const Step wanted = in_float64("resnet18");
  for (const auto& forced :
       {"bn1", "relu", "maxpool", "layer1", "layer2.0", "layer2.0.bn1", "layer2.1.bn2", "layer3.0.relu",
        "layer3.0.downsample", "layer3.0.downsample.1", "layer4.1.conv2", "conv1"}) {
    INFO(forced);
    const Step fused = step({"resnet18", true, true, at::kCUDA, {forced}});
    const Step stock = step({"resnet18", false, true, at::kCUDA, {forced}});
    CHECK(std::abs(fused.loss - wanted.loss) < 2 * std::abs(stock.loss - wanted.loss) + 1e-2);
    CHECK(gradient_error(fused, wanted) < 1.5 * gradient_error(stock, wanted) + 1e-3);
  }
}
