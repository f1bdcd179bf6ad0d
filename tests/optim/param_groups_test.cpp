#include "optim/param_groups.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "support/catch.h"

using namespace ampctl;

namespace {

at::Tensor parameter() { return at::zeros({2}).requires_grad_(); }

std::vector<std::pair<std::string, at::Tensor>> model() {
  return {{"conv.weight", parameter()}, {"bn.weight", parameter()}, {"bn.bias", parameter()},
          {"fc.weight", parameter()},   {"fc.bias", parameter()},   {"bias", parameter()}};
}

const std::set<std::string> kNorms{"bn.weight", "bn.bias"};

std::map<std::string, double> decays(const std::vector<optim::ParamGroup>& groups) {
  std::map<std::string, double> result;
  for (const auto& group : groups) {
    REQUIRE(group.names.size() == group.params.size());
    for (const auto& name : group.names) result[name] = group.weight_decay;
  }
  return result;
}

config::OptimizerConfig decay(double all) {
  config::OptimizerConfig config;
  config.weight_decay = all;
  return config;
}

}  // namespace

TEST_CASE("One weight decay makes one group in the model's order") {
  const auto groups = optim::make_param_groups(model(), kNorms, decay(0.1));
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].names ==
        std::vector<std::string>{"conv.weight", "bn.weight", "bn.bias", "fc.weight", "fc.bias", "bias"});
}

TEST_CASE("Norm layers and biases take their own weight decay, a norm's bias the biases'") {
  // torchvision's set_weight_decay: custom keys such as "bias" come before the layer's kind.
  auto config = decay(0.1);
  config.norm_weight_decay = 0.0;
  using Decays = std::map<std::string, double>;
  CHECK(decays(optim::make_param_groups(model(), kNorms, config)) == Decays{{"conv.weight", 0.1},
                                                                            {"bn.weight", 0.0},
                                                                            {"bn.bias", 0.0},
                                                                            {"fc.weight", 0.1},
                                                                            {"fc.bias", 0.1},
                                                                            {"bias", 0.1}});
  config.bias_weight_decay = 0.5;
  const auto groups = optim::make_param_groups(model(), kNorms, config);
  CHECK(groups.size() == 3);
  CHECK(decays(groups) == Decays{{"conv.weight", 0.1},
                                 {"bn.weight", 0.0},
                                 {"bn.bias", 0.5},
                                 {"fc.weight", 0.1},
                                 {"fc.bias", 0.5},
                                 {"bias", 0.5}});
}

TEST_CASE("Frozen parameters are left out, and a model of none but these is refused") {
  auto parameters = model();
  parameters[0].second.requires_grad_(false);
  CHECK(decays(optim::make_param_groups(parameters, kNorms, decay(0.0))).count("conv.weight") == 0);
  for (auto& [name, tensor] : parameters) tensor.requires_grad_(false);
  CHECK_THROWS_AS(optim::make_param_groups(parameters, kNorms, decay(0.0)), Error);
}

TEST_CASE("Unknown and repeated names are refused") {
  CHECK_THROWS_AS(optim::make_param_groups(model(), {"bn2.weight"}, decay(0.0)), Error);
  auto parameters = model();
  parameters.push_back(parameters[0]);
  CHECK_THROWS_AS(optim::make_param_groups(parameters, kNorms, decay(0.0)), Error);
}
