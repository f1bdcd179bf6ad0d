#include "train/evaluator.h"

#include <chrono>

#include <ATen/core/grad_mode.h>

#include "amp/autocast.h"
#include "task/classification.h"

namespace ampctl::train {
namespace {

constexpr auto kProgressInterval = std::chrono::milliseconds(200);

class EvalMode {
 public:
  explicit EvalMode(nn::Layer& model) : model_(model), was_training_(model.is_training()) { model_.eval(); }
  ~EvalMode() { model_.train(was_training_); }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  nn::Layer& model_;
  bool was_training_;
};

}  // namespace

std::optional<EvalResult> evaluate(nn::Layer& model, data::Loader& loader, int64_t total_samples,
                                   const StepOptions& precision,
                                   const std::function<void(int64_t, int64_t)>& progress) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  auto reported = start;
  const at::NoGradGuard no_grad;
  const EvalMode mode(model);

  EvalResult result;
  at::Tensor sums;
  int64_t done = 0;
  loader.begin_epoch(0, 0);
  while (auto batch = loader.next()) {
    done += batch->consumed;
    result.corrupt += batch->corrupt;
    if (batch->size > 0) {
      // The outermost scope clears the cast cache when it ends: a cast made here without a graph must not
      // serve the next training step.
      const amp::Autocast autocast(batch->images.device().type(), precision.autocast_dtype,
                                   precision.autocast, precision.autocast_cache);
      const at::Tensor batch_sums = task::metric_sums(model(batch->images), batch->targets);
      sums = sums.defined() ? sums + batch_sums : batch_sums;
    }
    if (Clock::now() - reported >= kProgressInterval) {
      reported = Clock::now();
      progress(done, total_samples);
    }
  }
  if (loader.stopped()) return std::nullopt;

  if (sums.defined()) {
    const at::Tensor host = sums.cpu();
    const auto* values = host.const_data_ptr<double>();
    result.samples = static_cast<int64_t>(values[3]);
    result.loss = values[0] / values[3];
    result.top1 = 100.0 * values[1] / values[3];
    result.top5 = 100.0 * values[2] / values[3];
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

}  // namespace ampctl::train
