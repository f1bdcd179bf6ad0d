#include "train/trainer.h"

#include <limits>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "data_fixture.h"
#include "fixture.h"
#include "recording_bus.h"
#include "support/catch.h"
#include "support/process.h"

namespace ampctl {
namespace {

using test::SmallData;

/// A trainer over SmallData: 26 samples, windows of 3 x 4, so 3 steps an epoch, the last over 2 samples.
struct Run {
  explicit Run(const std::string& more)
      : small("train: {epochs: 2, gradient_accumulation_steps: 3}\n" + more) {}

  train::Trainer trainer(const train::Progress& progress = {}) {
    return train::Trainer({small.plan,
                           {*setup.model, *setup.optimizer, *setup.scaler, *setup.step, c10::kCPU},
                           runner,
                           *setup.recorder,
                           {},
                           train_loader,
                           &eval_loader,
                           setup.optimizer->parameter_names(),
                           small.datasets.train->class_names(),
                           folder.path(),
                           recorded.bus,
                           stop,
                           alone},
                          progress);
  }

  test::TempDir folder;
  SmallData small;
  test::Setup setup{test::SetupOptions{}};
  train::StepRunner runner{*setup.step, c10::kCPU, {}};
  std::atomic<bool> stop{false};
  dist::World alone = dist::World::alone(c10::kCPU);
  data::Loader train_loader = small.loader(small.datasets.train, true, 4, &stop);
  data::Loader eval_loader = small.loader(small.datasets.eval, false, 4, &stop);
  test::RecordingBus recorded;
};

TEST_CASE("Each epoch ends with its steps' report, then the evaluation, then the checkpoint") {
  Run run("log: {every_steps: 2}\n");
  auto trainer = run.trainer();
  CHECK(trainer.run() == train::Outcome::done);
  std::string order;
  for (const auto& event : run.recorded.events) {
    if (const auto* step = std::get_if<events::StepEnd>(&event))
      order += "step" + std::to_string(step->step) + " ";
    if (const auto* eval = std::get_if<events::Evaluated>(&event)) {
      order += "eval" + std::to_string(eval->epoch) + "@" + std::to_string(eval->step) + " ";
    }
    if (const auto* saved = std::get_if<events::CheckpointSaved>(&event))
      order += "saved" + std::to_string(saved->step) + " ";
  }
  CHECK(order == "step2 step3 eval0@3 saved3 step4 step6 eval1@6 saved6 ");
  const auto steps = run.recorded.all<events::StepEnd>();
  CHECK(steps[1].epoch == 0);
  CHECK(steps[2].epoch == 1);
  const auto evaluations = run.recorded.all<events::Evaluated>();
  CHECK(evaluations[1].samples == 14);
  CHECK(trainer.final_top1() == evaluations[1].top1);
  CHECK(trainer.samples_per_sec() > 0);
  CHECK(trainer.progress().samples_consumed == 52);
  CHECK(checkpoint::list(run.folder.path()) == std::vector<int64_t>{3, 6});
}

TEST_CASE("A stop request before the first step saves step 0 and trains nothing") {
  Run run("");
  run.stop = true;
  const auto before = run.setup.state();
  auto trainer = run.trainer();
  CHECK(trainer.run() == train::Outcome::preempted);
  const auto after = run.setup.state();
  for (size_t i = 0; i < before.size(); ++i) CHECK(before[i].equal(after[i]));
  CHECK(checkpoint::list(run.folder.path()) == std::vector<int64_t>{0});
}

TEST_CASE("A finished run that is started again trains, evaluates and saves nothing more") {
  Run run("");
  {
    auto trainer = run.trainer();
    REQUIRE(trainer.run() == train::Outcome::done);
    const auto progress = trainer.progress();
    run.recorded.events.clear();
    auto again = run.trainer(progress);
    CHECK(again.run() == train::Outcome::done);
  }
  CHECK(run.recorded.events.empty());
}

TEST_CASE("Divergence saves the last good state, then throws what the log says") {
  Run run("amp: {dtype: float32, scaler: {max_consecutive_skips: 2}}\nlog: {every_steps: 1}\n");
  run.setup.model->parameters()[0].detach().fill_(std::numeric_limits<float>::infinity());
  auto trainer = run.trainer();
  try {
    trainer.run();
    FAIL("it went on");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::diverged);
  }
  CHECK(run.recorded.all<events::Overflow>().size() == 2);
  CHECK(checkpoint::list(run.folder.path()) == std::vector<int64_t>{2});
  CHECK(trainer.progress().skipped_steps == 2);
}

}  // namespace
}  // namespace ampctl
