// Evaluation is exact, and its weights are anybody's.
#include "e2e/train/runs.h"
#include "support/catch.h"
#include "support/matchers.h"
#include "support/skip.h"

namespace ampctl::test {
namespace {

constexpr const char* kExperiment = R"(seed: 4
device: cpu
model: {name: resnet18}
data:
  batch_size: 16
  num_workers: 2
  train:
    format: image_folder
    path: @DATA@/train
    transforms:
      - random_crop: {size: 24, padding: 2}
      - normalize: &values {mean: [0.4, 0.5, 0.6], std: [0.3, 0.25, 0.2]}
  eval:
    format: image_folder
    path: @DATA@/eval
    transforms:
      - center_crop: 24
      - normalize: *values
train: {steps: 12, num_threads: 1}
eval: {batch_size: 10}
optimizer: {lr: 0.01}
amp: {dtype: float32}
)";

void write_sources(const Workspace& workspace) {
  Images images;
  images.size = 24;
  write_image_folder(workspace.data() / "train", images);
  // 97 samples: the last batch is short. Noisy copies of another seed, so that not all are right.
  images.count = 97;
  images.seed = 9;
  images.change = [](int index, std::string& pixels) {
    for (size_t i = 0; i < pixels.size(); i += 1 + static_cast<size_t>(index % 3))
      pixels[i] = static_cast<char>(i * 37 + static_cast<size_t>(index) * 11);
  };
  write_image_folder(workspace.data() / "eval", images);
}

}  // namespace

TEST_CASE("ampctl eval repeats the run's figures, and torchvision's ResNet-18 with the same weights agrees") {
  const Workspace workspace(kExperiment);
  write_sources(workspace);
  const auto trained = workspace.train("run");
  INFO(trained.out << trained.err);
  REQUIRE(trained.exit_code == 0);
  const fs::path run = workspace.run_folder("run");
  const Json in_training = metrics_with(run, "eval/top1").back();

  const auto result =
      ampctl::test::run({AMPCTL_PROGRAM, "eval", run.string(), "--checkpoint", "latest", "--json"});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  const Json evaluated = Json::parse(result.out);
  CHECK(evaluated.at("samples") == 97);
  for (const char* key : {"eval/top1", "eval/top5", "eval/loss"})
    CHECK(evaluated.at(key) == in_training.at(key));

  if (!python_has({"torch", "torchvision", "safetensors", "PIL"}))
    return skip("Python has no torch and torchvision; scripts/test.sh installs them");
  const auto python_result =
      ampctl::test::run({python(), (source_dir() / "tests" / "reference" / "evaluate_resnet.py").string(),
                         (latest(run) / "model.safetensors").string(), (workspace.data() / "eval").string()});
  INFO(python_result.err);
  REQUIRE(python_result.exit_code == 0);
  const Json expected = Json::parse(python_result.out);
  CHECK(expected.at("samples") == 97);
  CHECK(evaluated.at("eval/top1").get<double>() == Approx(100.0 * expected.at("correct").get<double>() / 97));
  CHECK(evaluated.at("eval/loss").get<double>() == Approx(expected.at("loss").get<double>()).epsilon(1e-4));
}

}  // namespace ampctl::test
