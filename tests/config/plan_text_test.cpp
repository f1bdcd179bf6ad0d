#include <string>

#include "config/memory.h"
#include "config/plan_model.h"
#include "support/catch.h"
#include "texts.h"

namespace config = ampctl::config;
using config::RunPlan;

namespace {

// ImageNet's 1,281,167 images in global batches of 256: 5004 whole ones and one of 143.
RunPlan imagenet_plan() {
  auto config = config::load_text(
      "device: auto\nmodel: {name: resnet50, channels_last: true}\ntrain: {epochs: 90, "
      "gradient_accumulation_steps: 8}\n"
      "data:\n  batch_size: 32\n"
      "  train: {format: image_folder, path: a, transforms: [{random_resized_crop: 224}]}\n"
      "  eval: {format: image_folder, path: b, transforms: [{resize: 256}, {center_crop: 224}]}\n"
      "lr_schedule: {name: step, step_size_epochs: 30, warmup_epochs: 5, scale_lr: {rule: linear, "
      "base_batch_size: 128}}\n"
      "optimizer: {weight_decay: 1.0e-4}\noutput: runs/r\n",
      "e.yaml");
  return config::resolve(config, {1281167, 1000, 3, 0, 0}, config::DatasetFacts{50000, 1000, 3, 0, 0},
                         {1, "cuda"});
}

}  // namespace

TEST_CASE("a plan tells its arithmetic to people") {
  const std::string text = to_text(imagenet_plan());
  INFO(text);
  const auto has = [&text](const std::string& part) { return text.find(part) != std::string::npos; };
  CHECK(has("resnet50: 25,557,032 parameters, 1,000 classes, input 3x224x224, channels_last"));
  CHECK(has("micro-batch 32 x accumulation 8 x 1 process = global batch 256"));
  CHECK(has("1,281,167 training samples, 50,000 evaluation samples"));
  CHECK(
      has("5,005 steps an epoch (the last of 143 samples) x 90 epochs = 450,450 steps, 115,305,030 samples"));
  CHECK(has("sgd, lr 0.1 x (256 / 128) = 0.2, momentum 0.9, weight_decay 0.0001"));
  CHECK(has("float16 autocast, scaler on (from 65536"));
  CHECK(has("step: x 0.1 after each 150,150 steps, after 25,025 steps of warm-up from x 0"));
  CHECK(has("every 5,005 steps and at the end, batch 32, best by eval/top1"));
  CHECK(has("keeping the newest 3 and the best, in runs/r/checkpoints"));
  CHECK(has("memory       about "));
}

TEST_CASE("the memory estimate adds up weights, gradients, optimizer, casts and activations") {
  RunPlan plan = imagenet_plan();
  const auto cost = config::plan_cost(plan);
  auto memory = config::estimate_memory(plan);
  CHECK(memory.gradients == 4 * 25557032);
  CHECK(memory.optimizer == 4 * 25557032);
  CHECK(memory.casts == 2 * 25557032);
  CHECK(memory.activations == 32 * (2 * cost.activations + 8 * cost.indices));
  plan.precision = config::Precision::float32;
  plan.config.optimizer.name = "adamw";
  memory = config::estimate_memory(plan);
  CHECK(memory.casts == 0);
  CHECK(memory.optimizer == 8 * 25557032);
  CHECK(memory.activations == 32 * (4 * cost.activations + 8 * cost.indices));
}
