#include "train/train_step.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "amp/autocast.h"
#include "kernels/grad_stats.h"
#include "optim/clip.h"

namespace ampctl::train {

TrainStep::TrainStep(nn::Layer& model, optim::Optimizer& optimizer, amp::GradScaler& scaler,
                     amp::ScaleRecorder& recorder, BufferArena& buffers, at::Tensor lr_table,
                     const StepOptions& options)
    : model_(model),
      optimizer_(optimizer),
      scaler_(scaler),
      recorder_(recorder),
      buffers_(buffers),
      lr_table_(std::move(lr_table)),
      options_(options) {
  const auto counter = at::TensorOptions().device(lr_table_.device()).dtype(at::kLong);
  counters_ = {at::zeros({}, counter), at::zeros({}, counter)};
  if (scaler_.is_enabled()) scaler_.materialize(lr_table_.device());
}

// NOLINTNEXTLINE(readability-make-member-function-const): it changes what the tensors hold
void TrainStep::set_counters(int64_t steps_done, int64_t windows) {
  counters_.steps_done.fill_(steps_done);
  counters_.windows.fill_(windows);
}

void TrainStep::run(const std::vector<data::Batch>& window) {
  int64_t samples = 0;
  for (const auto& batch : window) samples += batch.size;
  buffers_.snapshot();
  optimizer_.zero_grad();
  const at::Tensor loss_sum = accumulate_gradients(window, samples);
  update(loss_sum, samples);
}

at::Tensor TrainStep::accumulate_gradients(const std::vector<data::Batch>& window, int64_t samples) {
  const double weight = 1.0 / static_cast<double>(samples);
  at::Tensor total;
  for (const auto& batch : window) {
    at::Tensor loss;
    {
      const amp::Autocast autocast(batch.images.device().type(), options_.autocast_dtype, options_.autocast,
                                   options_.autocast_cache);
      loss = task::loss_sum(model_(batch.images), batch.targets, options_.task);
    }
    scaler_.scale(loss * weight).backward();
    total = total.defined() ? total + loss.detach() : loss.detach();
  }
  return total;
}

void TrainStep::update(const at::Tensor& loss_sum, int64_t samples) {
  const at::NoGradGuard no_grad;
  at::Tensor grad_scale = scaler_.is_enabled() ? scaler_.scale_tensor() : at::Tensor();
  const kernels::GradStats stats = kernels::grad_stats(
      optimizer_.gradients_or_undefined(), grad_scale.defined() ? grad_scale.reciprocal() : at::Tensor());
  const at::Tensor found_inf = stats.nonfinite.any().to(at::kFloat);
  const at::Tensor norm = stats.sum_squares.sum().sqrt();

  if (options_.clip_grad_value) {
    // Clamping needs the unscaled values themselves; what follows then has nothing left to divide by.
    const std::vector<at::Tensor> grads = optimizer_.gradients();
    if (grad_scale.defined()) optim::scale_(grads, grad_scale.reciprocal());
    grad_scale = at::Tensor();
    optim::clip_grad_value_(grads, *options_.clip_grad_value);
    if (options_.clip_grad_norm) {
      const at::Tensor clipped = optim::grad_norm(grads, {});
      optim::scale_(grads, optim::clip_coefficient(clipped, *options_.clip_grad_norm));
    }
  } else if (options_.clip_grad_norm) {
    // The fused optimizer divides by one number anyway: unscaling and clipping cost no pass of their own.
    const at::Tensor coefficient = optim::clip_coefficient(norm, *options_.clip_grad_norm);
    grad_scale = optim::clipped_grad_scale(grad_scale, coefficient);
  }
  if (grad_scale.defined()) grad_scale = grad_scale.to(at::kFloat);

  const at::Tensor lr = lr_table_.index_select(0, counters_.steps_done.unsqueeze(0)).squeeze(0);
  const at::Tensor step = (counters_.steps_done + 1).to(at::kFloat);
  optimizer_.step({lr, step, grad_scale, found_inf});
  buffers_.restore_if(found_inf);

  amp::RecordedStep record;
  record.step = counters_.windows;
  record.scale = scaler_.scale_tensor();
  record.growth_tracker = scaler_.growth_tracker_tensor();
  record.found_inf = found_inf;
  record.grad_norm = norm;
  record.loss_sum = loss_sum;
  record.samples = samples;
  record.lr = lr;
  record.nonfinite = stats.nonfinite;
  recorder_.record(record);

  scaler_.update_from_found_inf(found_inf);
  counters_.steps_done.add_(1 - found_inf.to(at::kLong));
  counters_.windows.add_(1);
}

}  // namespace ampctl::train
