// The models against PyTorch and torchvision, run once for all tests of this file.
#include <fstream>

#include <nlohmann/json.hpp>

#include "model/models.h"
#include "support/catch.h"
#include "support/reference_file.h"
#include "support/skip.h"

using namespace ampctl;

namespace {

// As in tests/reference/model_reference.py.
constexpr uint64_t kInitSeed = 7;
constexpr uint64_t kForwardSeed = 3;

class Reference {
 public:
  Reference() {
    if (!test::python_has({"torch", "torchvision", "safetensors"})) return;
    available_ = true;
    try {
      test::run_reference("model_reference.py", {folder_.path().string()});
    } catch (const std::runtime_error& error) {
      // Kept for every test: thrown from here, each of them would run the script again.
      failure_ = error.what();
    }
  }
  /// False, with the reason printed, when the test must be skipped.
  [[nodiscard]] bool ready() const {
    if (!available_)
      test::skip("Python has no torch, torchvision or safetensors; scripts/test.sh installs them");
    INFO(failure_);
    REQUIRE(failure_.empty());
    return available_;
  }
  [[nodiscard]] test::Tensors tensors(const std::string& name) const {
    return test::read_tensors(folder_.path() / (name + ".safetensors"));
  }
  [[nodiscard]] nlohmann::json names() const {
    return nlohmann::json::parse(std::ifstream(folder_.path() / "names.json"));
  }

 private:
  test::TempDir folder_;
  bool available_ = false;
  std::string failure_;
};

const Reference& reference() {
  static const Reference made;
  return made;
}

struct Case {
  std::string name;
  std::string model;
  model::InputShape shape;
  int64_t num_classes;
};

const std::vector<Case> kCases{{"mlp", "mlp", {1, 8, 8}, 10},
                               {"lenet28", "lenet", {1, 28, 28}, 10},
                               {"lenet32", "lenet", {3, 32, 32}, 7},
                               {"resnet18", "resnet18", {3, 64, 64}, 1000},
                               {"resnet50", "resnet50", {3, 64, 64}, 1000}};

nn::LayerPtr make(const Case& wanted, uint64_t seed) {
  config::ModelConfig config;
  config.name = wanted.model;
  config.hidden_sizes = {32, 16};
  config.dropout = 0.5;
  at::manual_seed(seed);
  return model::make_model(config, wanted.shape, wanted.num_classes);
}

std::vector<std::pair<std::string, at::Tensor>> state(const nn::Layer& model) {
  std::vector<std::pair<std::string, at::Tensor>> all;
  for (const auto& item : model.named_parameters()) all.emplace_back(item.key(), item.value());
  for (const auto& item : model.named_buffers()) all.emplace_back(item.key(), item.value());
  return all;
}

void load(const nn::Layer& model, const test::Tensors& tensors, const std::string& prefix) {
  for (auto& [name, tensor] : state(model)) tensor.set_data(tensors.at(prefix + name).clone());
}

void to_float64(const nn::Layer& model) {
  for (auto& [name, tensor] : state(model)) {
    if (tensor.is_floating_point()) tensor.set_data(tensor.to(at::kDouble));
  }
}

/// torch.optim.SGD's rule: the first buffer is the gradient itself.
void sgd_step(const std::vector<at::Tensor>& parameters, std::vector<at::Tensor>& buffers, double lr,
              double momentum) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& gradient = parameters[i].grad();
    if (buffers[i].defined()) {
      buffers[i].mul_(momentum).add_(gradient);
    } else {
      buffers[i] = gradient.clone();
    }
    const at::Tensor& parameter = parameters[i];
    parameter.add_(buffers[i], -lr);
    parameter.mutable_grad().reset();
  }
}

nlohmann::json described(const torch::OrderedDict<std::string, at::Tensor>& tensors) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& item : tensors) list.push_back({item.key(), item.value().sizes().vec()});
  return list;
}

}  // namespace

TEST_CASE("Models start with PyTorch's and torchvision's weights, bit for bit, from the same seed") {
  if (!reference().ready()) return;
  for (const auto& wanted : kCases) {
    const auto expected = reference().tensors(wanted.name);
    for (const auto& [name, tensor] : state(*make(wanted, kInitSeed))) {
      INFO(wanted.name << " " << name);
      CHECK(at::equal(tensor, expected.at("initial." + name)));
    }
  }
}

TEST_CASE("One training step gives PyTorch's and torchvision's outputs, gradients and buffers") {
  if (!reference().ready()) return;
  constexpr double kTolerance = 1e-4;
  for (const auto& wanted : kCases) {
    const auto expected = reference().tensors(wanted.name);
    const auto model = make(wanted, /*seed=*/kInitSeed + 1);
    load(*model, expected, "initial.");
    at::manual_seed(kForwardSeed);
    const at::Tensor output = (*model)(expected.at("input"));
    at::cross_entropy_loss(output, expected.at("target")).backward();
    INFO(wanted.name);
    CHECK(test::relative_l2(output, expected.at("output")) < kTolerance);
    for (const auto& item : model->named_parameters()) {
      INFO(item.key());
      CHECK(test::relative_l2(item.value().grad(), expected.at("grad." + item.key())) < kTolerance);
    }
    for (const auto& item : model->named_buffers()) {
      INFO(item.key());
      CHECK(test::relative_l2(item.value(), expected.at("after." + item.key())) < kTolerance);
    }
  }
}

TEST_CASE("Twenty SGD steps in float64 end at torchvision's parameters and buffers") {
  if (!reference().ready()) return;
  for (const auto& wanted : kCases) {
    if (wanted.model.rfind("resnet", 0) != 0) continue;
    const auto model = make(wanted, kInitSeed + 1);
    load(*model, reference().tensors(wanted.name), "initial.");
    to_float64(*model);
    const auto expected = reference().tensors("sgd-" + wanted.name);
    const auto parameters = model->parameters();
    std::vector<at::Tensor> momentum_buffers(parameters.size());
    const at::Tensor& inputs = expected.at("inputs");
    for (int64_t step = 0; step < inputs.size(0); ++step) {
      const at::Tensor output = (*model)(inputs[step]);
      at::cross_entropy_loss(output, expected.at("targets")[step]).backward();
      sgd_step(parameters, momentum_buffers, /*lr=*/0.01, /*momentum=*/0.9);
    }
    CHECK(inputs.size(0) == 20);
    for (const auto& [name, tensor] : state(*model)) {
      INFO(wanted.name << " " << name);
      CHECK(test::relative_l2(tensor, expected.at("state." + name)) < 1e-9);
    }
  }
}

TEST_CASE("All ResNets have torchvision's parameters and buffers by name, order and shape") {
  if (!reference().ready()) return;
  const auto expected = reference().names();
  REQUIRE(expected.size() == 5);
  for (const auto& [name, lists] : expected.items()) {
    INFO(name);
    const auto model = make({name, name, {3, 32, 32}, 13}, kInitSeed);
    CHECK(described(model->named_parameters()) == lists.at("parameters"));
    CHECK(described(model->named_buffers()) == lists.at("buffers"));
  }
}
