#include <cmath>
#include <string>

#include "base/error.h"
#include "support/catch.h"
#include "texts.h"

namespace config = ampctl::config;
namespace test = ampctl::test;
using ampctl::Error;
using ampctl::ErrorKind;
using config::DatasetFacts;
using config::ExperimentConfig;
using config::Precision;
using config::resolve;
using config::RunPlan;
using config::TransformConfig;
using test::message_of_plan;
using test::minimal_config;

namespace {

const DatasetFacts kImages{1000, 10, 1, 28, 28};

RunPlan plan_of(const ExperimentConfig& config, const DatasetFacts& train = kImages,
                const std::optional<DatasetFacts>& eval = std::nullopt) {
  ExperimentConfig on_device = config;
  on_device.device = "auto";
  return resolve(on_device, train, eval, {});
}

ExperimentConfig with_batch(int64_t micro, int64_t accumulation = 1) {
  ExperimentConfig config = minimal_config();
  config.data.batch_size = micro;
  config.train.gradient_accumulation_steps = accumulation;
  return config;
}

TransformConfig transform(const std::string& name, int64_t size, int64_t padding = 0) {
  TransformConfig t;
  t.name = name;
  t.size = size;
  t.padding = padding;
  return t;
}

std::string size_of(const DatasetFacts& facts, const std::vector<TransformConfig>& transforms) {
  ExperimentConfig config = minimal_config();
  config.data.train.transforms = transforms;
  const RunPlan plan = plan_of(config, facts);
  return std::to_string(plan.input_height) + "x" + std::to_string(plan.input_width);
}

}  // namespace

TEST_CASE("steps of an epoch count the shorter last window unless it is dropped") {
  ExperimentConfig config = with_batch(32, 3);  // windows of 96: 10 whole ones and 40 samples
  config.train.epochs = 4;
  RunPlan plan = plan_of(config);
  CHECK(plan.steps_per_epoch == 11);
  CHECK(plan.samples_per_epoch == 1000);
  CHECK(plan.total_windows == 44);
  config.data.drop_last = true;
  plan = plan_of(config);
  CHECK(plan.steps_per_epoch == 10);
  CHECK(plan.samples_per_epoch == 960);
  CHECK(plan.total_windows == 40);
  config.data.batch_size = 100;
  config.train.gradient_accumulation_steps = 1;
  config.train.epochs.reset();
  config.train.steps = 25;
  plan = plan_of(config);
  CHECK(plan.steps_per_epoch == 10);
  CHECK(plan.total_windows == 25);
}

TEST_CASE("lengths of the schedule in epochs become steps, fractions of an epoch too") {
  ExperimentConfig config = with_batch(100);  // 10 steps an epoch
  config.train.epochs = 9;
  config.lr_schedule.name = "step";
  config.lr_schedule.step_size_epochs = 3;
  config.lr_schedule.warmup_epochs = 0.75;
  RunPlan plan = plan_of(config);
  CHECK(plan.lr.step_size == 30);
  CHECK(plan.lr.warmup_steps == 8);  // 7.5 rounded
  CHECK(plan.lr.total_steps == 90);
  CHECK(plan.lr.steps_per_epoch == 10);
  config.lr_schedule.name = "multi_step";
  config.lr_schedule.milestones_epochs = {2, 5};
  config.lr_schedule.warmup_epochs.reset();
  config.lr_schedule.warmup_steps = 4;
  plan = plan_of(config);
  CHECK(plan.lr.milestones == std::vector<int64_t>{20, 50});
  CHECK(plan.lr.warmup_steps == 4);
  config.lr_schedule.milestones_epochs = {};
  config.lr_schedule.milestones_steps = {3, 7};
  CHECK(plan_of(config).lr.milestones == std::vector<int64_t>{3, 7});
}

TEST_CASE("the learning rate grows with the global batch as the rule says") {
  ExperimentConfig config = with_batch(128, 4);
  config.optimizer.lr = 0.1;
  CHECK(plan_of(config).lr.base_lr == 0.1);
  config.lr_schedule.scale_lr = {"linear", 256};
  CHECK(plan_of(config).lr.base_lr == Approx(0.2).epsilon(1e-15));
  config.lr_schedule.scale_lr = {"sqrt", 128};
  CHECK(plan_of(config).lr.base_lr == Approx(0.2).epsilon(1e-15));
  CHECK(plan_of(config).config.optimizer.lr == 0.1);
}

TEST_CASE("precision, scaler and TF32 follow dtype and enabled") {
  struct Row {
    bool enabled;
    std::string dtype, scaler, tf32;
    Precision precision;
    bool scaler_on, tf32_on;
  };
  const std::vector<Row> rows{
      {true, "float16", "auto", "auto", Precision::float16, true, true},
      {true, "float16", "false", "false", Precision::float16, false, false},
      {true, "bfloat16", "auto", "auto", Precision::bfloat16, false, true},
      {true, "bfloat16", "true", "auto", Precision::bfloat16, true, true},
      {true, "tf32", "auto", "auto", Precision::tf32, false, true},
      {true, "float32", "auto", "auto", Precision::float32, false, false},
      {true, "float32", "auto", "true", Precision::float32, false, true},
      {false, "float16", "auto", "auto", Precision::float32, false, false},
      {false, "tf32", "auto", "auto", Precision::float32, false, false},
  };
  for (const auto& row : rows) {
    ExperimentConfig config = minimal_config();
    config.amp.enabled = row.enabled;
    config.amp.dtype = row.dtype;
    config.amp.scaler.enabled = row.scaler;
    config.amp.allow_tf32 = row.tf32;
    const RunPlan plan = plan_of(config);
    INFO(row.dtype << " scaler " << row.scaler << " tf32 " << row.tf32);
    CHECK(plan.precision == row.precision);
    CHECK(plan.scaler_enabled == row.scaler_on);
    CHECK(plan.allow_tf32 == row.tf32_on);
  }
}

TEST_CASE("evaluation and checkpoints come each epoch, or as often as was asked") {
  ExperimentConfig config = with_batch(100);
  config.train.epochs = 5;
  const DatasetFacts eval{200, 10, 1, 28, 28};
  RunPlan plan = plan_of(config, kImages, eval);
  CHECK(plan.eval_every_windows == 10);
  CHECK(plan.checkpoint_every_windows == 10);
  CHECK(plan.eval_samples == 200);
  CHECK(plan.eval_batch == 100);
  CHECK(plan_of(config).eval_every_windows == 0);
  config.eval.every_epochs = 2;
  config.checkpoint.every_steps = 7;
  config.eval.batch_size = 33;
  plan = plan_of(config, kImages, eval);
  CHECK(plan.eval_every_windows == 20);
  CHECK(plan.checkpoint_every_windows == 7);
  CHECK(plan.eval_batch == 33);
  config.eval.every_epochs = 0;
  config.checkpoint.every_steps.reset();
  config.checkpoint.every_epochs = 0;
  plan = plan_of(config, kImages, eval);
  CHECK(plan.eval_every_windows == 0);
  CHECK(plan.checkpoint_every_windows == 0);
}

TEST_CASE("the input's size is what the transforms leave of the image") {
  const DatasetFacts photos{1000, 10, 3, 0, 0};
  const DatasetFacts wide{1000, 10, 3, 30, 50};
  CHECK(size_of(wide, {}) == "30x50");
  CHECK(size_of(wide, {transform("resize", 20)}) == "20x33");  // 20 * 50 / 30 = 33.3
  CHECK(size_of(wide, {transform("resize", 45)}) == "45x75");
  CHECK(size_of({1000, 10, 3, 50, 30}, {transform("resize", 20)}) == "33x20");
  CHECK(size_of(wide, {transform("center_crop", 24)}) == "24x24");
  CHECK(size_of(wide, {transform("center_crop", 40)}) == "40x40");
  CHECK(size_of(wide, {transform("random_crop", 34, 2)}) == "34x34");
  CHECK(size_of(photos, {transform("random_resized_crop", 64)}) == "64x64");
  CHECK(size_of(photos, {transform("resize", 64), transform("center_crop", 56)}) == "56x56");
}

TEST_CASE("images without one size, or too small for a crop, are refused") {
  const DatasetFacts photos{1000, 10, 3, 0, 0};
  const DatasetFacts small{1000, 10, 3, 32, 40};
  const auto told = [](const DatasetFacts& facts, const std::vector<TransformConfig>& transforms) {
    ExperimentConfig config = minimal_config();
    config.data.train.transforms = transforms;
    return message_of_plan(config, facts);
  };
  const std::string no_size =
      "data.train.transforms: expected a transform that gives all images one size (resize and center_crop, "
      "or "
      "random_resized_crop), since these images differ in size; found none";
  CHECK(told(photos, {}) == no_size);
  CHECK(told(photos, {transform("resize", 64)}) == no_size);
  CHECK(told(small, {transform("random_crop", 37, 2)}) ==
        "data.train.transforms[0]: random_crop: expected a size of at most the image's shorter side, 32 + 2 "
        "x padding "
        "2, found 37; resize first");
  TransformConfig normalize;
  normalize.name = "normalize";
  normalize.mean = normalize.std = {1, 1};
  CHECK(told(small, {normalize}) ==
        "data.train.transforms[0]: normalize: expected mean and std of 1 or 3 channels as the images have, "
        "found 2");
}

TEST_CASE("data that does not fit the settings is refused, all of it at once") {
  ExperimentConfig config = with_batch(64, 20);
  config.model.num_classes = 5;
  CHECK(message_of_plan(config, kImages) ==
        "2 problems in the configuration:\n"
        "model.num_classes: expected at least the data's 10, found 5\n"
        "data.batch_size: expected a global batch of at most the 1,000 training samples, found 64 x 20 x 1 = "
        "1,280");
  config = with_batch(10);
  config.model.name = "lenet";
  CHECK(message_of_plan(config, {1000, 10, 1, 8, 8}) ==
        "model lenet: expected images of at least 12 pixels in height and width, found 8x8");
  config = with_batch(1);
  config.train.epochs = 200'000;
  CHECK(message_of_plan(config, kImages) ==
        "train.epochs: expected a run of at most 100,000,000 steps, found 200,000,000");
  config = with_batch(100);
  config.lr_schedule.warmup_epochs = 2;
  CHECK(message_of_plan(config, kImages) ==
        "lr_schedule.warmup_epochs: expected at most the run's 10 steps, found 20 steps");
  config = with_batch(100);
  config.lr_schedule.name = "cosine";
  config.lr_schedule.min_lr = 0.5;
  CHECK(message_of_plan(config, kImages) ==
        "lr_schedule.min_lr: expected at most the learning rate, 0.1, found 0.5");
}

TEST_CASE("evaluation data has to fit the training data") {
  ExperimentConfig config = with_batch(100);
  config.device = "auto";
  const auto told = [&config](const DatasetFacts& eval) -> std::string {
    try {
      resolve(config, kImages, eval, {});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(told({100, 10, 1, 28, 28}).empty());
  CHECK(told({100, 10, 3, 28, 28}) == "data.eval: expected images of 1 channels as in data.train, found 3");
  CHECK(told({100, 11, 1, 28, 28}) == "data.eval: expected at most 10 classes as in data.train, found 11");
  CHECK(
      told({100, 10, 1, 32, 32}) ==
      "data.eval.transforms: expected images of 28x28 as in training, since mlp takes one size; found 32x32");
  config.model.name = "resnet18";
  CHECK(told({100, 10, 1, 32, 32}).empty());
}

TEST_CASE("processes multiply the global batch, and their number must be the one that was started") {
  ExperimentConfig config = with_batch(10);
  config.device = "auto";
  const RunPlan plan = resolve(config, kImages, std::nullopt, {4, "cpu"});
  CHECK(plan.world_size == 4);
  CHECK(plan.global_batch == 40);
  CHECK(plan.config.distributed.world_size == 4);
  config.distributed.world_size = 4;
  CHECK(message_of_plan(config, kImages, {4, "cpu"}).empty());
  config.distributed.world_size = 2;
  CHECK(message_of_plan(config, kImages, {4, "cpu"}) ==
        "distributed.world_size: expected 4, as many processes as were started, or auto; found 2");
  CHECK(message_of_plan(config, kImages, {1, "cpu"}) ==
        "distributed.world_size: expected 1, as many processes as were started, or auto; found 2");
}

TEST_CASE("data_parallel is one process, without synchronised batch norm") {
  ExperimentConfig config = with_batch(10);
  config.device = "auto";
  config.distributed.strategy = "data_parallel";
  CHECK(message_of_plan(config, kImages).empty());
  CHECK(message_of_plan(config, kImages, {2, "cpu"})
            .starts_with("distributed.strategy: expected ddp with 2 processes, found data_parallel"));
  config.distributed.sync_batch_norm = true;
  CHECK(message_of_plan(config, kImages).starts_with("distributed.sync_batch_norm: expected false"));
}

TEST_CASE("a continued run may have another number of processes, but not other arithmetic") {
  for (const char* key : {"distributed.world_size", "distributed.timeout", "data.batch_size"}) {
    CAPTURE(key);
    CHECK(config::may_change_on_resume(key));
  }
  for (const char* key :
       {"distributed.sync_batch_norm", "distributed.gradient_compression", "data.global_batch_size"}) {
    CAPTURE(key);
    CHECK_FALSE(config::may_change_on_resume(key));
  }
}

TEST_CASE("a hypothetical number of processes is planned with, whatever the configuration says") {
  ExperimentConfig config = with_batch(10);
  config.device = "auto";
  config.distributed.world_size = 1;
  const RunPlan plan = resolve(config, kImages, std::nullopt, {4, "cpu", true});
  CHECK(plan.world_size == 4);
  CHECK(plan.global_batch == 40);
  CHECK(plan.steps_per_epoch == 25);
}

TEST_CASE("a device that is not there is a fault of the environment") {
  ExperimentConfig config = minimal_config();
  config.device = "cuda";
  try {
    resolve(config, kImages, std::nullopt, {1, "cpu"});
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::environment);
    CHECK(std::string(error.what()) ==
          "device: expected a cuda device, found only cpu; write device: auto to take what is there");
  }
}

TEST_CASE("the plan carries a configuration that repeats it") {
  ExperimentConfig config = with_batch(32, 3);
  config.data.batch_size.reset();
  config.data.global_batch_size = 96;
  config.data.split.eval_fraction = 0.25;
  config.amp.dtype = "float16";
  const DatasetFacts eval{200, 10, 1, 28, 28};
  const RunPlan plan = plan_of(config, kImages, eval);
  CHECK(plan.config.device == "cpu");
  CHECK(plan.config.data.batch_size == 32);
  CHECK(plan.config.data.global_batch_size == 96);
  CHECK(plan.config.model.num_classes == 10);
  CHECK(plan.config.amp.scaler.enabled == "true");
  REQUIRE(plan.config.data.eval.has_value());
  const ExperimentConfig again = config::load_text(config::to_yaml(plan.config), "config.yaml");
  CHECK(again == plan.config);
  const RunPlan repeated = resolve(again, kImages, eval, {});
  CHECK(repeated.config == plan.config);
  CHECK(repeated.total_windows == plan.total_windows);
}
