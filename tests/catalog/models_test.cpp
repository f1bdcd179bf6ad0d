#include "catalog/models.h"

#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "support/catch.h"
#include "support/process.h"

namespace catalog = ampctl::catalog;
namespace test = ampctl::test;
using ampctl::Error;
using catalog::model_cost;

TEST_CASE("sizes of models are those of torchvision, and of autograd's own bookkeeping") {
  if (!test::python_has({"torch", "torchvision"})) {
    WARN("skipped: Python has no torch or no torchvision");
    return;
  }
  const auto result =
      test::run({test::python(), (test::source_dir() / "tests/reference/catalog_models.py").string()});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  std::istringstream lines(result.out);
  int seen = 0;
  for (std::string line; std::getline(lines, line); ++seen) {
    const auto expected = nlohmann::json::parse(line);
    const auto& image = expected["shape"];
    const catalog::ModelShape shape{image[0],           image[1],           image[2], expected["classes"],
                                    expected["hidden"], expected["dropout"]};
    const auto cost = model_cost(expected["name"].get<std::string>(), shape);
    INFO(line);
    CHECK(cost.parameters == expected["parameters"]);
    CHECK(cost.buffers == expected["buffers"]);
    CHECK(cost.activations == expected["activations"]);
    CHECK(cost.indices == expected["indices"]);
    CHECK(cost.forward_flops == expected["flops"]);
  }
  CHECK(seen == 12);
}

TEST_CASE("models are found by name and know their options") {
  CHECK(catalog::find_model("resnet50") != nullptr);
  CHECK(catalog::find_model("ResNet50") == nullptr);
  CHECK(catalog::models_taking("dropout") == std::vector<std::string>{"mlp"});
  CHECK(catalog::models_taking("zero_init_residual").size() == 5);
  CHECK(catalog::models_taking("nothing").empty());
  CHECK(catalog::model_names() == std::vector<std::string>{"mlp", "lenet", "resnet18", "resnet34", "resnet50",
                                                           "resnet101", "resnet152"});
}

TEST_CASE("an unknown model and an image too small for a model are usage errors") {
  CHECK_THROWS_AS(model_cost("vgg", {}), Error);
  catalog::ModelShape small = catalog::find_model("lenet")->default_shape;
  small.height = 11;
  CHECK_THROWS_AS(model_cost("lenet", small), Error);
  small.height = 12;
  CHECK_NOTHROW(model_cost("lenet", small));
}
