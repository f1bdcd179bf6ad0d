#include <string>
#include <vector>

#include "support/catch.h"
#include "texts.h"

namespace test = ampctl::test;
using test::message_of;
using test::minimal;

namespace {

struct Case {
  std::string lines;
  std::string message;
};

void check_all(const std::vector<Case>& cases) {
  for (const auto& one : cases) CHECK(message_of(minimal() + one.lines) == one.message);
}

const std::string kNoTrain =
    "model: {name: mlp}\n"
    "data:\n"
    "  batch_size: 4\n"
    "  train: {format: synthetic}\n";

}  // namespace

TEST_CASE("exactly one of epochs and steps is accepted") {
  CHECK(message_of(kNoTrain + "train: {steps: 5}\n").empty());
  CHECK(message_of(kNoTrain + "train: {steps: 5, epochs: null}\n").empty());
  CHECK(message_of(kNoTrain + "train: {steps: 5, epochs: 1}\n") ==
        "e.yaml:5:16: train.steps: expected this or train.epochs, found both");
  CHECK(message_of(kNoTrain + "train: {label_smoothing: 0}\n") ==
        "e.yaml:5:1: train.epochs: expected this or train.steps, found neither");
  CHECK(message_of(kNoTrain) == "e.yaml: train.epochs: expected this or train.steps, found neither");
}

TEST_CASE("an option that the chosen optimizer, model, schedule or format does not take is refused") {
  check_all({
      {"optimizer: {name: adamw, momentum: 0.9}\n",
       "e.yaml:6:26: optimizer.momentum: an option of sgd, and optimizer.name is 'adamw'"},
      {"optimizer: {betas: [0.9, 0.999]}\n",
       "e.yaml:6:13: optimizer.betas: an option of adam or adamw, and optimizer.name is 'sgd'"},
      {"lr_schedule: {name: cosine, gamma: 0.5}\n",
       "e.yaml:6:29: lr_schedule.gamma: an option of step, multi_step or exponential, and lr_schedule.name "
       "is "
       "'cosine'"},
      {"lr_schedule: {min_lr: 0.5}\n",
       "e.yaml:6:15: lr_schedule.min_lr: an option of polynomial or cosine, and lr_schedule.name is "
       "'constant'"},
  });
  CHECK(
      message_of("model: {name: resnet50, dropout: 0.5}\ndata: {batch_size: 4, train: {format: synthetic}}\n"
                 "train: {epochs: 1}\n") ==
      "e.yaml:1:25: model.dropout: an option of mlp, and model.name is 'resnet50'");
  CHECK(
      message_of("model: {name: mlp}\ndata: {batch_size: 4, train: {format: synthetic, path: x}}\n"
                 "train: {epochs: 1}\n") ==
      "e.yaml:2:50: data.train.path: an option of idx or image_folder, and data.train.format is 'synthetic'");
}

TEST_CASE("contradictions between settings are told at the setting to change") {
  check_all({
      {"optimizer: {nesterov: true, momentum: 0}\n",
       "e.yaml:6:23: optimizer.nesterov: expected momentum > 0 and dampening 0 with nesterov, found momentum "
       "0 "
       "and dampening 0"},
      {"optimizer: {nesterov: true, dampening: 0.1}\n",
       "e.yaml:6:23: optimizer.nesterov: expected momentum > 0 and dampening 0 with nesterov, found momentum "
       "0.9 "
       "and dampening 0.1"},
      {"amp: {dtype: float32, scaler: {enabled: true}}\n",
       "e.yaml:6:41: amp.scaler.enabled: expected false or auto, since amp.dtype float32 has no float16 "
       "gradients to scale; found true"},
      {"amp: {enabled: false, scaler: {enabled: on}}\n",
       "e.yaml:6:41: amp.scaler.enabled: expected false or auto, since amp.enabled: false has no float16 "
       "gradients to scale; found true"},
      {"amp: {dtype: tf32, allow_tf32: false}\n",
       "e.yaml:6:32: amp.allow_tf32: expected true or auto with amp.dtype tf32, found false"},
      {"amp: {scaler: {init_scale: 2, min_scale: 4}}\n",
       "e.yaml:6:42: amp.scaler.min_scale: expected at most init_scale, 2, found 4"},
      {"device: cpu\ndistributed: {backend: nccl}\n",
       "e.yaml:7:24: distributed.backend: expected gloo or auto with device: cpu, found nccl"},
      {"eval: {every_steps: 5}\n",
       "e.yaml:6:21: eval.every_steps: expected data.eval or data.split.eval_fraction to evaluate on, found "
       "neither"},
      {"checkpoint: {every_steps: 5, every_epochs: 1}\n",
       "e.yaml:6:27: checkpoint.every_steps: expected this or checkpoint.every_epochs, found both"},
  });
}

TEST_CASE("schedules need the lengths of their kind, rising where they are several") {
  check_all({
      {"lr_schedule: {warmup_epochs: 1, warmup_steps: 10}\n",
       "e.yaml:6:47: lr_schedule.warmup_steps: expected this or lr_schedule.warmup_epochs, found both"},
      {"lr_schedule: {name: step}\n",
       "e.yaml:6:1: lr_schedule.step_size_epochs: expected this or lr_schedule.step_size_steps for a step "
       "schedule, found neither"},
      {"lr_schedule: {name: step, step_size_epochs: 1, step_size_steps: 2}\n",
       "e.yaml:6:65: lr_schedule.step_size_steps: expected this or lr_schedule.step_size_epochs, found both"},
      {"lr_schedule: {name: multi_step}\n",
       "e.yaml:6:1: lr_schedule.milestones_epochs: expected this or lr_schedule.milestones_steps for a "
       "multi_step schedule, found neither"},
      {"lr_schedule: {name: multi_step, milestones_steps: [10, 30, 30]}\n",
       "e.yaml:6:51: lr_schedule.milestones_steps: expected rising milestones, found 30 after 30"},
  });
}

TEST_CASE("a source says where its data is, and a split source leaves that to the training part") {
  const std::string head = "model: {name: mlp}\ntrain: {epochs: 1}\ndata:\n  batch_size: 4\n";
  CHECK(message_of(head) == "e.yaml:3:1: data.train.format: expected a value, found none");
  CHECK(message_of(head + "  train: {format: idx}\n") ==
        "e.yaml:5:3: data.train.path: expected a folder of IDX files, or both images and labels; found "
        "neither");
  CHECK(message_of(head + "  train: {format: idx, images: a}\n") ==
        "e.yaml:5:3: data.train.path: expected a folder of IDX files, or both images and labels; found "
        "neither");
  CHECK(message_of(head + "  train: {format: image_folder}\n") ==
        "e.yaml:5:3: data.train.path: expected a folder with a folder of images a class, found none");
  CHECK(message_of(head + "  train: {format: idx, path: x}\n  split: {eval_fraction: 0.2}\n").empty());
  CHECK(message_of(head + "  train: {format: idx, path: x}\n  split: {eval_fraction: 0.2}\n"
                          "  eval: {transforms: [{resize: 8}]}\n")
            .empty());
  CHECK(message_of(head + "  train: {format: idx, path: x}\n  split: {eval_fraction: 0.2}\n"
                          "  eval: {format: idx}\n") ==
        "e.yaml:7:18: data.eval.format: expected only transforms here, since data.split.eval_fraction takes "
        "the "
        "evaluation samples from data.train");
  CHECK(message_of(head + "  train: {format: idx, path: x, transforms: [horizontal_flip]}\n"
                          "  split: {eval_fraction: 0.2}\n")
            .find("since data.train.transforms has the random horizontal_flip; found none") !=
        std::string::npos);
}

TEST_CASE("a wrong choice does not make its neighbours wrong as well") {
  CHECK(message_of(minimal() + "optimizer: {name: adamm, betas: [0.9, 0.99], momentum: 0.9}\n") ==
        "e.yaml:6:19: optimizer.name: expected one of sgd, adam or adamw, found 'adamm' (did you mean "
        "'adam'?)");
  CHECK(
      message_of(minimal() + "lr_schedule: {name: steps, step_size_epochs: 3}\n") ==
      "e.yaml:6:21: lr_schedule.name: expected one of constant, step, multi_step, exponential, polynomial or "
      "cosine, found 'steps' (did you mean 'step'?)");
}
