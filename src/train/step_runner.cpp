#include "train/step_runner.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/Exception.h>

#include "base/error.h"

namespace ampctl::train {
namespace {

// Everything that decides what is launched, and with which constants.
std::vector<int64_t> shape_of(const std::vector<data::Batch>& window, int64_t window_samples) {
  std::vector<int64_t> shape{window_samples};
  for (const auto& batch : window) {
    shape.push_back(batch.size);
    if (!batch.images.defined()) continue;
    shape.push_back(static_cast<int64_t>(batch.images.scalar_type()));
    shape.insert(shape.end(), batch.images.sizes().begin(), batch.images.sizes().end());
    shape.insert(shape.end(), batch.images.strides().begin(), batch.images.strides().end());
  }
  return shape;
}

data::Batch fixed_copy(const data::Batch& batch) {
  data::Batch copy = batch;
  if (batch.images.defined()) copy.images = at::empty_like(batch.images);
  if (batch.targets.defined()) copy.targets = at::empty_like(batch.targets);
  return copy;
}

void fill(const data::Batch& fixed, const data::Batch& batch) {
  if (batch.images.defined()) fixed.images.copy_(batch.images, /*non_blocking=*/true);
  if (batch.targets.defined()) fixed.targets.copy_(batch.targets, /*non_blocking=*/true);
}

}  // namespace

StepRunner::StepRunner(TrainStep& step, c10::Device device, GraphOptions options)
    : step_(step),
      device_(device),
      options_(std::move(options)),
      eager_(!options_.wanted || !has_step_graphs(device)),
      in_flight_(device) {
  if (!eager_ && options_.obstacle) stay_eager(*options_.obstacle, /*warning=*/false);
}

void StepRunner::run(const std::vector<data::Batch>& window, int64_t window_samples) {
  in_flight_.wait_for_room();
  const Shape shape = eager_ ? Shape() : shape_of(window, window_samples);
  const auto found = captured_.find(shape);
  if (found != captured_.end()) {
    run_captured(found->second, window);
  } else if (eager_ || !may_capture(shape) || !capture(shape, window, window_samples)) {
    step_.run(window, window_samples);
    ++total_eager_steps_;
  }
  in_flight_.add();
}

bool StepRunner::may_capture(const Shape& shape) {
  // cuDNN times its algorithms when it meets a shape first, which no capture allows.
  const bool seen = eager_steps_[shape]++ > 0;
  if (!seen || total_eager_steps_ < options_.warm_up_steps) return false;
  if (captured_.size() < kMostGraphs) return true;
  if (!std::exchange(too_many_shapes_told_, true)) {
    notice_ = Notice{"windows come in more than " + std::to_string(kMostGraphs) +
                         " shapes: the rarer ones run eagerly, not as CUDA graphs",
                     /*warning=*/false};
  }
  return false;
}

void StepRunner::run_captured(Captured& captured, const std::vector<data::Batch>& window) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < window.size(); ++i) fill(captured.inputs[i], window[i]);
  captured.graph->replay();
  step_.replayed();
}

bool StepRunner::capture(const Shape& shape, const std::vector<data::Batch>& window, int64_t window_samples) {
  Captured captured;
  try {
    step_.before_capture();
    if (!pool_) pool_ = std::make_unique<GraphPool>(device_);
    for (const auto& batch : window) captured.inputs.push_back(fixed_copy(batch));
    captured.graph = std::make_unique<StepGraph>(*pool_, [&] { step_.run(captured.inputs, window_samples); });
  } catch (const c10::Error& error) {
    const std::string reason = error.what_without_backtrace();
    if (options_.has_ranks) {
      throw Error(ErrorKind::internal, "the step could not be captured as a CUDA graph (" + reason +
                                           "); set train.cuda_graph: false to run it eagerly");
    }
    stay_eager("the capture failed (" + reason + ")", /*warning=*/true);
    return false;
  }
  run_captured(captured, window);
  captured_.emplace(shape, std::move(captured));
  return true;
}

void StepRunner::stay_eager(const std::string& reason, bool warning) {
  eager_ = true;
  captured_.clear();
  notice_ =
      Notice{"steps run eagerly, not as a CUDA graph, which train.cuda_graph allows: " + reason, warning};
}

std::optional<StepRunner::Notice> StepRunner::take_notice() { return std::exchange(notice_, std::nullopt); }

}  // namespace ampctl::train
