#include "model/models.h"

#include "amp/autocast.h"
#include "base/error.h"
#include "catalog/models.h"
#include "nn/layer_tree.h"
#include "support/catch.h"

using namespace ampctl;

namespace {

nn::LayerPtr make(const std::string& name, const model::InputShape& shape, int64_t num_classes) {
  config::ModelConfig config;
  config.name = name;
  config.hidden_sizes = {32, 16};
  config.dropout = 0.25;
  return model::make_model(config, shape, num_classes);
}

std::string usage_failure(const std::string& name, const model::InputShape& shape, int64_t num_classes) {
  try {
    make(name, shape, num_classes);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::usage);
    return error.what();
  }
  return "";
}

int64_t count(const std::vector<at::Tensor>& tensors) {
  int64_t elements = 0;
  for (const auto& tensor : tensors) elements += tensor.numel();
  return elements;
}

}  // namespace

TEST_CASE("The catalog describes exactly the models that can be built, with their sizes") {
  CHECK(model::model_names() == catalog::model_names());
  for (const auto& name : {"mlp", "lenet", "resnet18", "resnet50"}) {
    INFO(name);
    const auto model = make(name, {1, 28, 30}, 7);
    catalog::ModelShape shape;
    shape.channels = 1;
    shape.height = 28;
    shape.width = 30;
    shape.num_classes = 7;
    shape.hidden_sizes = {32, 16};
    CHECK(count(model->parameters()) == catalog::model_cost(name, shape).parameters);
  }
}

TEST_CASE("An unknown model is a usage error that names the nearest one") {
  const std::string message = usage_failure("resnet5", {3, 32, 32}, 10);
  INFO(message);
  CHECK(message.find("'resnet5'") != std::string::npos);
  CHECK(message.find("did you mean 'resnet50'") != std::string::npos);
}

TEST_CASE("Shapes that a model cannot take are usage errors") {
  CHECK(usage_failure("lenet", {1, 11, 28}, 10).find("11x28") != std::string::npos);
  CHECK(usage_failure("lenet", {1, 12, 12}, 10).empty());
  CHECK_FALSE(usage_failure("resnet18", {3, 32, 32}, 0).empty());
  CHECK_FALSE(usage_failure("resnet18", {0, 32, 32}, 10).empty());
  CHECK_FALSE(usage_failure("mlp", {1, 0, 28}, 10).empty());
}

TEST_CASE("zero_init_residual zeroes the last norm of every residual block alone") {
  config::ModelConfig config;
  config.name = "resnet50";
  config.zero_init_residual = true;
  const auto model = model::make_model(config, {3, 32, 32}, 10);
  for (const auto& parameter : model->named_parameters()) {
    INFO(parameter.key());
    const std::string suffix = ".bn3.weight";
    const std::string& name = parameter.key();
    const bool last =
        name.size() > suffix.size() && name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0;
    const bool zero = parameter.value().count_nonzero().item<int64_t>() == 0;
    const bool bias_of_norm = name.find("bn") != std::string::npos && name.find("bias") != std::string::npos;
    const bool bias_of_shortcut = name.find("downsample.1.bias") != std::string::npos;
    CHECK(zero == (last || bias_of_norm || bias_of_shortcut));
  }
}

TEST_CASE("Models train in 16 bits and channels_last with float32 gradients") {
  for (const std::string name : {"mlp", "lenet", "resnet18", "resnet50"}) {
    for (const auto dtype : {at::kHalf, at::kBFloat16}) {
      INFO(name << " " << dtype);
      const auto model = make(name, {3, 32, 32}, 10);
      nn::to_channels_last(*model);
      const at::Tensor images = at::randn({4, 3, 32, 32}).contiguous(at::MemoryFormat::ChannelsLast);
      at::Tensor output;
      {
        const amp::Autocast region(at::kCPU, dtype);
        output = (*model)(images);
      }
      CHECK(output.scalar_type() == dtype);
      at::cross_entropy_loss(output.to(at::kFloat), at::arange(4)).backward();
      for (const auto& parameter : model->named_parameters()) {
        INFO(parameter.key());
        const at::Tensor& gradient = parameter.value().grad();
        REQUIRE(gradient.defined());
        CHECK(gradient.scalar_type() == at::kFloat);
        CHECK(gradient.isfinite().all().item<bool>());
        CHECK(gradient.strides() == parameter.value().strides());
      }
    }
  }
}

TEST_CASE("A forced stage of a ResNet runs in float32 between 16-bit neighbours") {
  const auto model = make("resnet18", {3, 32, 32}, 10);
  nn::force_float32_modules(*model, {"layer4", "fc"});
  const amp::Autocast region(at::kCPU, at::kBFloat16);
  CHECK((*model)(at::randn({2, 3, 64, 64})).scalar_type() == at::kFloat);
}

TEST_CASE("Every norm parameter of a ResNet is found by name") {
  const auto model = make("resnet18", {3, 32, 32}, 10);
  // torchvision's ResNet-18: the stem's norm, two in each of 8 blocks, three shortcuts.
  const auto names = nn::norm_parameter_names(*model);
  REQUIRE(names.size() == 2 * (1 + 16 + 3));
  CHECK(names.front() == "bn1.weight");
}
