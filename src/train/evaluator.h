// Exact evaluation: every sample once, sums on the device, one read at the end.
#pragma once

#include <atomic>
#include <functional>
#include <optional>

#include "config/run_plan.h"
#include "data/loader.h"
#include "dist/world.h"
#include "nn/layer.h"
#include "train/train_step.h"

namespace ampctl::train {

struct EvalResult {
  double loss = 0.0;  ///< mean over samples, without label smoothing
  double top1 = 0.0;  ///< percent
  double top5 = 0.0;  ///< percent
  int64_t samples = 0;
  int64_t corrupt = 0;
  double seconds = 0.0;
};

/// One evaluation.
struct EvalRun {
  int64_t total_samples = 0;  ///< of all ranks
  int64_t batch_size = 1;     ///< of a rank
  StepOptions precision;      ///< autocast as in training
  std::function<void(int64_t done, int64_t total)> progress = [](int64_t, int64_t) {};
  /// Asked before each round of batches, as often on every rank, and answered alike; false ends the
  /// evaluation.
  std::function<bool()> go_on = [] { return true; };
};

/// Runs the model over the loader's part of the dataset in evaluation mode and puts it back into the mode it
/// was in; sums over all ranks, so that every rank returns the same figures. nullopt when stopped.
/// Collective.
std::optional<EvalResult> evaluate(nn::Layer& model, data::Loader& loader, const EvalRun& run,
                                   const dist::World& world);

}  // namespace ampctl::train
