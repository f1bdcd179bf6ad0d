#include <filesystem>

#include <nlohmann/json.hpp>

#include "checkpoint/safetensors.h"
#include "fixture.h"
#include "support/catch.h"
#include "support/reference_file.h"
#include "support/skip.h"

namespace ampctl {
namespace {

namespace fs = std::filesystem;
using test::Setup;
using test::SetupOptions;

constexpr int kSteps = 30;
constexpr int kMicro = 2;

checkpoint::TensorRef reference(const std::string& name, const at::Tensor& tensor) {
  return {name, tensor.scalar_type() == at::kLong ? "I64" : "F32", tensor.sizes().vec(),
          tensor.const_data_ptr(), tensor.nbytes()};
}

struct Case {
  SetupOptions options;
  double tolerance;  ///< relative L2 of each parameter after all steps
};

void follow_pytorch(const Case& test_case) {
  const test::TempDir folder;
  Setup setup(test_case.options);
  std::vector<std::vector<data::Batch>> windows;
  std::vector<checkpoint::TensorRef> inputs;
  std::vector<at::Tensor> kept;
  int index = 0;
  for (const auto& parameter : setup.parameters()) {
    kept.push_back(parameter.clone());
    inputs.push_back(reference("param." + std::to_string(index++), kept.back()));
  }
  for (int step = 0; step < kSteps; ++step) {
    const bool overflow = step % 7 == 3;
    windows.push_back({test::make_batch("mlp", 4),
                       overflow ? test::make_overflowing_batch("mlp", 3) : test::make_batch("mlp", 3)});
    for (int j = 0; j < kMicro; ++j) {
      const auto& batch = windows.back()[static_cast<size_t>(j)];
      const std::string prefix = "window" + std::to_string(step) + ".";
      inputs.push_back(reference(prefix + "images" + std::to_string(j), batch.images));
      inputs.push_back(reference(prefix + "targets" + std::to_string(j), batch.targets));
    }
  }
  const fs::path source = folder.path() / "in.safetensors";
  const fs::path target = folder.path() / "out.safetensors";
  checkpoint::write_safetensors(source, inputs);
  const auto& options = test_case.options;
  const nlohmann::json arguments{{"inputs", 16},
                                 {"hidden", 8},
                                 {"classes", test::kClasses},
                                 {"optimizer", options.optimizer},
                                 {"lr", options.lr},
                                 {"dtype", options.precision},
                                 {"init_scale", options.init_scale},
                                 {"growth_interval", options.growth_interval},
                                 {"steps", kSteps},
                                 {"micro", kMicro},
                                 {"label_smoothing", options.label_smoothing},
                                 {"clip_grad_norm", options.clip_grad_norm.value_or(0.0)},
                                 {"clip_grad_value", options.clip_grad_value.value_or(0.0)}};
  test::run_reference("train_step_reference.py", {arguments.dump(), source.string(), target.string()});
  const auto expected = test::read_tensors(target);

  for (int step = 0; step < kSteps; ++step) {
    setup.step->run(windows[static_cast<size_t>(step)]);
    CHECK(setup.scaler->get_scale() == expected.at("scale")[step].item<double>());
  }
  const auto rows = setup.rows();
  REQUIRE(rows.size() == kSteps);
  for (int step = 0; step < kSteps; ++step) {
    CHECK(rows[static_cast<size_t>(step)].found_inf == (expected.at("skipped")[step].item<double>() == 1.0));
  }
  index = 0;
  for (const auto& parameter : setup.parameters()) {
    CHECK(test::relative_l2(parameter, expected.at("param." + std::to_string(index++))) <=
          test_case.tolerance);
  }
}

TEST_CASE("Training with injected overflows follows PyTorch's loop step by step") {
  if (!test::python_has({"torch", "safetensors"})) {
    return test::skip("Python has no torch and safetensors; scripts/test.sh installs them");
  }
  Case test_case{{}, 1e-5};
  SECTION("float16, SGD, growing scale") {
    test_case.options.precision = "float16";
    test_case.options.growth_interval = 3;
    test_case.tolerance = 2e-3;
  }
  SECTION("float16, AdamW, clipping by norm, label smoothing") {
    test_case.options.precision = "float16";
    test_case.options.optimizer = "adamw";
    test_case.options.lr = 1e-3;
    test_case.options.clip_grad_norm = 0.1;
    test_case.options.label_smoothing = 0.1;
    test_case.tolerance = 2e-3;
  }
  SECTION("bfloat16, SGD, clipping by value") {
    test_case.options.precision = "bfloat16";
    test_case.options.clip_grad_value = 0.01;
    test_case.tolerance = 2e-2;
  }
  SECTION("float32, SGD, clipping by value and norm") {
    test_case.options.clip_grad_value = 0.02;
    test_case.options.clip_grad_norm = 0.05;
  }
  SECTION("float32, AdamW") {
    test_case.options.optimizer = "adamw";
    test_case.options.lr = 1e-3;
  }
  follow_pytorch(test_case);
}

}  // namespace
}  // namespace ampctl
