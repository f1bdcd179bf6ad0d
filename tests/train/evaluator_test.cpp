#include "train/evaluator.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/topk.h>

#include "data_fixture.h"
#include "fixture.h"
#include "support/catch.h"

namespace ampctl {
namespace {

using test::Setup;
using test::SetupOptions;
using test::SmallData;

struct Whole {
  at::Tensor images;
  at::Tensor targets;
};

/// All samples as one batch.
Whole whole(const SmallData& small) {
  auto loader = small.loader(small.datasets.eval, false, 100);
  loader.begin_epoch(0, 0);
  const auto batch = loader.next();
  return {batch->images.clone(), batch->targets.clone()};
}

train::EvalRun eval_run(int64_t batch_size, const train::StepOptions& precision = {}) {
  train::EvalRun run;
  run.total_samples = 14;
  run.batch_size = batch_size;
  run.precision = precision;
  return run;
}

const dist::World kAlone = dist::World::alone(c10::kCPU);

TEST_CASE("Evaluation counts every sample once, whatever the batches") {
  const SmallData small("train: {epochs: 1}\n");
  Setup setup{SetupOptions{}};
  const Whole all = whole(small);
  REQUIRE(all.targets.numel() == 14);
  const at::NoGradGuard no_grad;
  const at::Tensor logits = (*setup.model)(all.images);
  const auto loss = at::cross_entropy_loss(logits, all.targets).item<double>();
  const at::Tensor best = std::get<1>(logits.topk(1, 1)).squeeze(1);
  const auto correct = best.eq(all.targets).sum().item<int64_t>();
  for (const int64_t batch : {1, 4, 5, 14, 64}) {
    auto loader = small.loader(small.datasets.eval, false, batch);
    const auto result = train::evaluate(*setup.model, loader, eval_run(batch), kAlone);
    REQUIRE(result);
    CHECK(result->samples == 14);
    CHECK(result->top1 == 100.0 * static_cast<double>(correct) / 14);
    CHECK(result->top5 == 100.0);
    CHECK(result->loss == Approx(loss).epsilon(1e-6));
  }
}

TEST_CASE(
    "Evaluation leaves mode, weights and running statistics as they were, and ignores label smoothing") {
  const SmallData small("train: {epochs: 1}\n");
  SetupOptions options;
  options.label_smoothing = 0.2;
  Setup setup(options);
  train::StepOptions smoothed;
  smoothed.task.label_smoothing = 0.2;
  setup.model->train();
  const auto before = setup.state();
  auto loader = small.loader(small.datasets.eval, false, 4);
  const auto plain = train::evaluate(*setup.model, loader, eval_run(4), kAlone);
  const auto same = train::evaluate(*setup.model, loader, eval_run(4, smoothed), kAlone);
  CHECK(plain->loss == same->loss);
  CHECK(setup.model->is_training());
  const auto after = setup.state();
  for (size_t i = 0; i < before.size(); ++i) CHECK(before[i].equal(after[i]));
}

TEST_CASE("A stop request ends an evaluation without a result") {
  const SmallData small("train: {epochs: 1}\n");
  Setup setup{SetupOptions{}};
  const std::atomic<bool> stop{true};
  auto loader = small.loader(small.datasets.eval, false, 4, &stop);
  CHECK_FALSE(train::evaluate(*setup.model, loader, eval_run(4), kAlone).has_value());
  CHECK(setup.model->is_training());
}

}  // namespace
}  // namespace ampctl
