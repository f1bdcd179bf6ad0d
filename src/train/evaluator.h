// Exact evaluation: every sample once, sums on the device, one read at the end.
#pragma once

#include <atomic>
#include <functional>
#include <optional>

#include "config/run_plan.h"
#include "data/loader.h"
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

/// Runs the model over the loader's dataset in evaluation mode, under the training's autocast, and puts it
/// back into the mode it was in. nullopt when stopped. `progress(done, total)` is called now and then.
std::optional<EvalResult> evaluate(nn::Layer& model, data::Loader& loader, int64_t total_samples,
                                   const StepOptions& precision,
                                   const std::function<void(int64_t, int64_t)>& progress);

}  // namespace ampctl::train
