#include "bench/report.h"

#include <limits>
#include <optional>

#include "support/catch.h"

namespace bench = ampctl::bench;
namespace config = ampctl::config;

namespace {

config::RunPlan resnet50_plan() {
  config::ExperimentConfig experiment;
  experiment.device = "cuda";
  experiment.model.name = "resnet50";
  experiment.data.batch_size = 256;
  experiment.data.train.format = "synthetic";
  experiment.train.steps = 100;
  config::DatasetFacts data;
  data.num_samples = 25600;
  data.num_classes = 1000;
  data.channels = 3;
  data.height = data.width = 224;
  return config::resolve(experiment, data, std::nullopt, {1, "cuda"});
}

bench::Report example() {
  bench::Report report;
  report.blocks = {10, 10, 3};
  report.times = {{0.032, 0.030, 0.034}, {0.001, 0.002, 0.003}, true};
  return report;
}

}  // namespace

TEST_CASE("A ResNet-50 step is three forward passes of 4.09 G multiply-adds an image") {
  const auto json = bench::to_json(example(), resnet50_plan());
  // torchvision.models.ResNet50_Weights.IMAGENET1K_V1.meta["_ops"]
  CHECK(json["rates"]["flops_a_step"].get<double>() / (256 * 3 * 2) / 1e9 == Approx(4.089).epsilon(0.001));
  CHECK(json["rates"]["flops_per_second"].get<double>() ==
        Approx(json["rates"]["flops_a_step"].get<double>() / 0.032));
}

TEST_CASE("Throughput is the global batch by the step's time, with the spread of the blocks") {
  const auto json = bench::to_json(example(), resnet50_plan());
  CHECK(json["samples_per_sec"]["median"].get<double>() == Approx(8000.0));
  CHECK(json["samples_per_sec"]["max"].get<double>() == Approx(256 / 0.030));
  CHECK(json["step_seconds"]["spread"].get<double>() == Approx(0.125));
  CHECK(json["data_wait_seconds"].get<double>() == Approx(0.002));
  CHECK(json["block_step_seconds"].size() == 3);
  CHECK(json["workload"]["precision"] == "float16");
}

TEST_CASE("What was not measured is null, and so is a loss that is no number") {
  auto report = example();
  report.loss = std::numeric_limits<double>::quiet_NaN();
  const auto json = nlohmann::ordered_json::parse(bench::to_json(report, resnet50_plan()).dump());
  for (const char* key : {"phases", "profile", "first_step_seconds", "loss"}) CHECK(json[key].is_null());
  CHECK(json["rates"]["limits"].is_null());
  CHECK(json["rates"]["bytes_per_second"].is_null());
}
