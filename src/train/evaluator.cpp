#include "train/evaluator.h"

#include <algorithm>
#include <chrono>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "amp/autocast.h"
#include "dist/collectives.h"
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

/// Adds up what evaluation batches give: metric sums on the device, damaged samples on the host.
class Sums {
 public:
  explicit Sums(c10::Device device)
      : total_(at::zeros({kSums}, at::TensorOptions().device(device).dtype(at::kDouble))) {}

  void add(const at::Tensor& batch_sums) { total_.narrow(0, 0, kMetrics).add_(batch_sums); }
  void add_corrupt(int64_t count) { corrupt_ += count; }

  /// The result over all ranks; the only wait for the device.
  EvalResult result(const dist::World& world) {
    total_.select(0, kMetrics).fill_(static_cast<double>(corrupt_));
    dist::all_reduce_sum_(world, total_);
    const at::Tensor host = total_.cpu();
    const auto* values = host.const_data_ptr<double>();
    EvalResult result;
    result.corrupt = static_cast<int64_t>(values[kMetrics]);
    result.samples = static_cast<int64_t>(values[3]);
    if (result.samples == 0) return result;
    result.loss = values[0] / values[3];
    result.top1 = 100.0 * values[1] / values[3];
    result.top5 = 100.0 * values[2] / values[3];
    return result;
  }

 private:
  static constexpr int64_t kMetrics = 4;  // task::metric_sums: loss, top-1, top-5, samples
  static constexpr int64_t kSums = kMetrics + 1;
  at::Tensor total_;
  int64_t corrupt_ = 0;
};

}  // namespace

std::optional<EvalResult> evaluate(nn::Layer& model, data::Loader& loader, const EvalRun& run,
                                   const dist::World& world) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  auto reported = start;
  const at::NoGradGuard no_grad;
  const EvalMode mode(model);

  Sums sums(world.device());
  int64_t done = 0;
  loader.begin_epoch(0, 0);
  const int64_t round = run.batch_size * world.size();
  for (int64_t first = 0; first < run.total_samples; first += round) {
    if (!run.go_on()) return std::nullopt;
    const auto batch = loader.next();
    if (!batch && loader.stopped()) return std::nullopt;
    if (batch) sums.add_corrupt(batch->corrupt);
    if (batch && batch->size > 0) {
      // The outermost scope clears the cast cache when it ends: a cast made here without a graph must not
      // serve the next training step.
      const amp::Autocast autocast(batch->images.device().type(), run.precision.autocast_dtype,
                                   run.precision.autocast, run.precision.autocast_cache);
      sums.add(task::metric_sums(model(batch->images), batch->targets));
    }
    done = std::min(first + round, run.total_samples);
    if (Clock::now() - reported >= kProgressInterval) {
      reported = Clock::now();
      run.progress(done, run.total_samples);
    }
  }
  if (loader.stopped()) return std::nullopt;
  EvalResult result = sums.result(world);
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

}  // namespace ampctl::train
