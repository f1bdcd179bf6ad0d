#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "config/walk.h"
#include "support/catch.h"
#include "support/process.h"
#include "texts.h"

namespace config = ampctl::config;
namespace test = ampctl::test;
using config::load_text;
using config::to_yaml;

namespace {

// Together these set every field to something else than its default.
const std::vector<std::string> kEveryField{
    R"(
seed: 7
device: cpu
model: {name: mlp, num_classes: 12, channels_last: true, fused: false, hidden_sizes: [5, 6], dropout: 0.25, weights: "a: b # c"}
data:
  batch_size: 3
  global_batch_size: 6
  num_workers: 0
  prefetch_factor: 3
  pin_memory: false
  shuffle: false
  drop_last: true
  on_corrupt: skip
  max_corrupt: 5
  train: {format: idx, path: "/tmp/with space/\"quotes\"\\é", transforms: [horizontal_flip, {resize: 3}]}
  eval: {format: idx, images: "~/i", labels: "null", transforms: [{normalize: {mean: [0.1], std: [1.0e-7]}}]}
train:
  epochs: 3
  gradient_accumulation_steps: 2
  clip_grad_norm: 1
  clip_grad_value: 0.1
  label_smoothing: 0.1
  deterministic: true
  cudnn_benchmark: false
  cuda_graph: false
  num_threads: 3
  activation_checkpointing: ["layer?.?", "${NOT:fc}"]
eval: {every_epochs: 2, batch_size: 9, best_metric: eval/loss}
optimizer:
  {name: sgd, lr: 0.3333333333333333, momentum: 0.5, nesterov: true, weight_decay: 1.0e-5, bias_weight_decay: 0,
   norm_weight_decay: 0.125, fused: false}
lr_schedule:
  {name: step, warmup_epochs: 0.5, warmup_start_factor: 0.1, step_size_epochs: 2, gamma: 0.5,
   scale_lr: {rule: sqrt, base_batch_size: 16}}
amp:
  {enabled: false, dtype: bf16, cache_enabled: false, allow_tf32: true, fp32_modules: ["*.bn?", "${NOT:head}", "$${x}"],
   scaler: {enabled: false, init_scale: 2, growth_factor: 3, backoff_factor: 0.25, growth_interval: 4, min_scale: 0,
            max_consecutive_skips: 0}}
distributed:
  {world_size: 1, strategy: data_parallel, backend: gloo, timeout: 30, bucket_cap_mb: 0.5, gradient_compression: float16,
   gradient_as_bucket_view: false, broadcast_buffers: false, find_unused_parameters: true, sync_batch_norm: true}
checkpoint: {every_steps: 5, keep: 1, keep_best: false, resume: "runs/a b/step-00000001"}
log: {every_steps: 1, progress: none, level: trace, cuda_sync_debug: warn}
output: "runs/tab\tnew\nline"
)",
    R"(
model: {name: resnet18, zero_init_residual: true}
data:
  batch_size: 3
  train:
    format: synthetic
    num_samples: 10
    image_size: 11
    channels: 4
    num_classes: 13
    transforms:
      - random_crop: {size: 8, padding: 2}
      - random_resized_crop: {size: 9, scale: [0.5, 0.75], ratio: [0.5, 2]}
      - horizontal_flip: 0.125
  eval: {format: synthetic, num_samples: 10, image_size: 11, channels: 4, num_classes: 13}
train: {steps: 1e3}
eval: {every_steps: 7}
optimizer: {name: adamw, betas: [0.5, 0.75], eps: 1.0e-3, amsgrad: true}
lr_schedule: {name: cosine, warmup_steps: 5, min_lr: 0.01}
checkpoint: {every_epochs: 2}
)",
    R"(
model: {name: lenet}
data:
  batch_size: 3
  train: {format: idx, images: a, labels: b}
  eval: {transforms: [{center_crop: 28}]}
  split: {eval_fraction: 0.3, seed: 5, stratified: false}
train: {steps: 10}
optimizer: {dampening: 0.5}
lr_schedule: {name: multi_step, milestones_steps: [2, 4]}
)",
    R"(
model: {name: lenet}
data:
  batch_size: 3
  train: {format: idx, path: x}
  eval: {format: image_folder, path: y}
train: {epochs: 10}
lr_schedule: {name: multi_step, milestones_epochs: [2, 4]}
)",
    R"(
model: {name: lenet}
data: {batch_size: 3, train: {format: image_folder, path: x}}
train: {epochs: 10}
lr_schedule: {name: polynomial, power: 2}
)",
    R"(
model: {name: lenet}
data: {batch_size: 3, train: {format: image_folder, path: x}}
train: {epochs: 10}
lr_schedule: {name: step, step_size_steps: 2}
)"};

std::vector<std::filesystem::path> shipped() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_dir() / "configs")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

TEST_CASE("what is written is read back equal, for every field set to something else than its default") {
  std::set<std::string> unchanged;
  const auto defaults = config::all_sections();
  for (const auto& section : defaults) {
    for (const auto& row : section.fields) unchanged.insert(row.key);
  }
  const config::ExperimentConfig plain;
  for (const auto& text : kEveryField) {
    const auto config = load_text(text, "e.yaml");
    const std::string written = to_yaml(config);
    INFO(written);
    CHECK(load_text(written, "written.yaml") == config);
    CHECK(load_text(to_yaml(config, true), "commented.yaml") == config);
    CHECK(to_yaml(load_text(written, "written.yaml")) == written);
    for (const auto& difference : config::diff(plain, config)) unchanged.erase(difference.key);
  }
  // Fails when a field is added without a text above that sets it.
  CHECK(unchanged.empty());
}

TEST_CASE("every shipped experiment is valid, and is read back equal") {
  const auto files = shipped();
  CHECK(files.size() >= 4);
  for (const auto& file : files) {
    INFO(file.string());
    const auto config = config::load({{file.string()}, {}});
    CHECK(load_text(to_yaml(config), "written.yaml") == config);
    CHECK(load_text(to_yaml(config, true), "commented.yaml") == config);
  }
}

TEST_CASE("diff names the fields that differ, with both values, and is empty for equal configurations") {
  const auto left = load_text(kEveryField[4], "left.yaml");
  auto right = left;
  CHECK(config::diff(left, right).empty());
  right.optimizer.lr = 1e-7;
  right.data.eval.emplace().format = "synthetic";
  right.lr_schedule.name = "cosine";
  std::vector<std::string> told;
  for (const auto& d : config::diff(left, right)) told.push_back(d.key + " " + d.left + " " + d.right);
  const auto has = [&told](const std::string& line) { return std::ranges::find(told, line) != told.end(); };
  CHECK(has("optimizer.lr 0.1 1.0e-07"));
  CHECK(has("data.eval.format (absent) synthetic"));
  CHECK(has("lr_schedule.name polynomial cosine"));
  CHECK(has("lr_schedule.power 2 (absent)"));
}

TEST_CASE(
    "a continued run may change its length, reporting and checkpoints, and nothing that makes it another") {
  for (const auto* key :
       {"train.epochs", "train.steps", "train.activation_checkpointing", "data.num_workers",
        "data.prefetch_factor", "log.level", "log", "checkpoint.keep", "output", "distributed.world_size",
        "data.batch_size", "train.gradient_accumulation_steps", "eval.every_steps"}) {
    INFO(key);
    CHECK(config::may_change_on_resume(key));
  }
  for (const auto* key : {"seed", "device", "model.name", "data.global_batch_size", "data.train.path",
                          "optimizer.lr", "amp.dtype", "amp.scaler.init_scale", "lr_schedule.name", "data",
                          "train", "data.drop_last", "logs", "data.eval.format", "train.label_smoothing"}) {
    INFO(key);
    CHECK_FALSE(config::may_change_on_resume(key));
  }
}
