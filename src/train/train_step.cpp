#include "train/train_step.h"

#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "amp/autocast.h"
#include "dist/collectives.h"
#include "dist/peers.h"
#include "kernels/grad_stats.h"
#include "optim/clip.h"
#include "train/data_parallel.h"
#include "train/step_phase.h"

namespace ampctl::train {

TrainStep::TrainStep(nn::Layer& model, optim::Optimizer& optimizer, amp::GradScaler& scaler,
                     amp::ScaleRecorder& recorder, BufferArena& buffers, at::Tensor lr_table,
                     StepOptions options)
    : model_(model),
      optimizer_(optimizer),
      scaler_(scaler),
      recorder_(recorder),
      buffers_(buffers),
      lr_table_(std::move(lr_table)),
      options_(std::move(options)) {
  const auto counter = at::TensorOptions().device(lr_table_.device()).dtype(at::kLong);
  counters_ = {at::zeros({}, counter), at::zeros({}, counter)};
  if (scaler_.is_enabled()) scaler_.materialize(lr_table_.device());
}

// NOLINTNEXTLINE(readability-make-member-function-const): it changes what the tensors hold
void TrainStep::set_counters(int64_t steps_done, int64_t windows) {
  counters_.steps_done.fill_(steps_done);
  counters_.windows.fill_(windows);
}

void TrainStep::join(const dist::World& world, dist::DistributedDataParallel& ddp) {
  world_ = &world;
  ddp_ = &ddp;
}

void TrainStep::spread(DataParallel& replicas) { replicas_ = &replicas; }

void TrainStep::run(const std::vector<data::Batch>& window, int64_t window_samples) {
  std::vector<data::Batch> batches;
  Window facts;
  for (const auto& batch : window) {
    facts.valid += batch.size;
    if (batch.size > 0) batches.push_back(batch);
  }
  facts.planned = has_ranks() ? window_samples : std::max<int64_t>(facts.valid, 1);
  // The Reducer divides by the number of ranks.
  double weight =
      (has_ranks() ? static_cast<double>(world_->size()) : 1.0) / static_cast<double>(facts.planned);
  even_out(batches, window_samples);
  if (batches.empty()) {
    batches.push_back(idle_batch(1));
    weight = 0.0;
  }
  buffers_.snapshot();
  optimizer_.zero_grad();
  facts.loss_sum = accumulate_gradients(batches, weight);
  if (facts.valid == 0) facts.loss_sum = at::zeros_like(facts.loss_sum);
  update(facts);
}

at::Tensor TrainStep::accumulate_gradients(const std::vector<data::Batch>& window, double weight) {
  at::Tensor total;
  for (size_t i = 0; i < window.size(); ++i) {
    const at::Tensor loss = backward(window[i], weight, i + 1 == window.size());
    total = total.defined() ? total + loss : loss;
  }
  return total;
}

at::Tensor TrainStep::backward(const data::Batch& batch, double weight, bool last) {
  // Gradients travel once a window, behind its last backward pass (PyTorch's no_sync before that).
  if (replicas_ != nullptr) {
    const auto body = [&](nn::Layer& replica, const data::Batch& part, const at::Tensor& scale) {
      const at::Tensor loss = forward(replica, part);
      (scale.defined() ? loss * weight * scale : loss * weight).backward();
      return loss.detach();
    };
    return replicas_->run(batch, scaler_.scale_tensor(), body);
  }
  const bool reduces = has_ranks() && last;
  if (reduces) ddp_->prepare_forward();
  const at::Tensor loss = forward(model_, batch);
  const StepPhase phase(kBackwardPhase);
  if (!reduces) {
    scaler_.scale(loss * weight).backward();
    return loss.detach();
  }
  ddp_->prepare_backward({loss});
  dist::with_peer_errors(*world_, "the reduction of the gradients",
                         [&] { scaler_.scale(loss * weight).backward(); });
  return loss.detach();
}

at::Tensor TrainStep::forward(nn::Layer& model, const data::Batch& batch) const {
  const StepPhase phase(kForwardPhase);
  const amp::Autocast autocast(batch.images.device().type(), options_.autocast_dtype, options_.autocast,
                               options_.autocast_cache);
  return task::loss_sum(model(batch.images), batch.targets, options_.task);
}

// Synchronised batch norms meet in every forward pass; a rank that has run out of samples brings none.
void TrainStep::even_out(std::vector<data::Batch>& batches, int64_t window_samples) const {
  if (!has_ranks() || options_.synced_micro_batch == 0) return;
  const int64_t largest_share = (window_samples + world_->size() - 1) / world_->size();
  const int64_t count = (largest_share + options_.synced_micro_batch - 1) / options_.synced_micro_batch;
  while (static_cast<int64_t>(batches.size()) < count) batches.push_back(idle_batch(0));
}

// Zeros are finite in every layer: their gradients, times 0, add nothing to the other ranks'.
data::Batch TrainStep::idle_batch(int64_t size) const {
  const auto device = lr_table_.device();
  std::vector<int64_t> shape{size};
  shape.insert(shape.end(), options_.image_shape.begin(), options_.image_shape.end());
  data::Batch batch;
  batch.images = at::zeros(shape, at::TensorOptions().device(device).dtype(options_.image_dtype));
  batch.targets = at::zeros({size}, at::TensorOptions().device(device).dtype(at::kLong));
  batch.size = size;
  return batch;
}

TrainStep::Outcome TrainStep::examine_gradients(const Window& window) const {
  Outcome outcome;
  if (scaler_.is_enabled()) outcome.grad_scale = scaler_.scale_tensor();
  const kernels::GradStats stats =
      kernels::grad_stats(optimizer_.gradients_or_undefined(),
                          outcome.grad_scale.defined() ? outcome.grad_scale.reciprocal() : at::Tensor());
  outcome.nonfinite = stats.nonfinite;
  outcome.found_inf = stats.nonfinite.any().to(at::kFloat);
  outcome.norm = stats.sum_squares.sum().sqrt();
  outcome.loss_sum = window.loss_sum;
  if (has_ranks()) agree(outcome, window);
  return outcome;
}

// Reduced gradients are equal everywhere, and so is what was found in them; yet every rank takes the verdict
// of all, so that scale, skips and schedule cannot part even if a rank's memory is faulty.
void TrainStep::agree(Outcome& outcome, const Window& window) const {
  const StepPhase phase(kCommunicationPhase);
  const auto sums = at::TensorOptions().device(lr_table_.device()).dtype(at::kDouble);
  at::Tensor joint = at::stack({outcome.found_inf.to(at::kDouble), outcome.loss_sum.to(at::kDouble),
                                at::full({}, static_cast<double>(window.valid), sums)});
  dist::all_reduce_sum_(*world_, joint);
  outcome.found_inf = joint.select(0, 0).gt(0).to(at::kFloat);
  outcome.loss_sum = joint.select(0, 1);
  if (!options_.samples_vary) return;
  // Gradients were weighted by the samples planned; the optimizer's division corrects that to those there
  // are.
  const at::Tensor ratio = joint.select(0, 2).clamp_min(1.0).div(static_cast<double>(window.planned));
  const at::Tensor factor = ratio.to(at::kFloat);
  outcome.grad_scale = outcome.grad_scale.defined() ? outcome.grad_scale * factor : factor;
  outcome.norm = outcome.norm / ratio;
  outcome.loss_sum = outcome.loss_sum / ratio;
}

void TrainStep::clip(Outcome& outcome) {
  if (options_.clip_grad_value) {
    // Clamping needs the unscaled values themselves; what follows then has nothing left to divide by.
    const std::vector<at::Tensor> grads = optimizer_.gradients();
    if (outcome.grad_scale.defined()) optim::scale_(grads, outcome.grad_scale.reciprocal());
    outcome.grad_scale = at::Tensor();
    optim::clip_grad_value_(grads, *options_.clip_grad_value);
    if (options_.clip_grad_norm) {
      const at::Tensor clipped = optim::grad_norm(grads, {});
      optim::scale_(grads, optim::clip_coefficient(clipped, *options_.clip_grad_norm));
    }
  } else if (options_.clip_grad_norm) {
    // The fused optimizer divides by one number anyway: unscaling and clipping cost no pass of their own.
    const at::Tensor coefficient = optim::clip_coefficient(outcome.norm, *options_.clip_grad_norm);
    outcome.grad_scale = optim::clipped_grad_scale(outcome.grad_scale, coefficient);
  }
  if (outcome.grad_scale.defined()) outcome.grad_scale = outcome.grad_scale.to(at::kFloat);
}

void TrainStep::update(const Window& window) {
  const at::NoGradGuard no_grad;
  const StepPhase phase(kOptimizerPhase);
  Outcome outcome = examine_gradients(window);
  clip(outcome);

  const at::Tensor lr = lr_table_.index_select(0, counters_.steps_done.unsqueeze(0)).squeeze(0);
  const at::Tensor step = (counters_.steps_done + 1).to(at::kFloat);
  optimizer_.step({lr, step, outcome.grad_scale, outcome.found_inf});
  buffers_.restore_if(outcome.found_inf);

  amp::RecordedStep record;
  record.step = counters_.windows;
  record.scale = scaler_.scale_tensor();
  record.growth_tracker = scaler_.growth_tracker_tensor();
  record.found_inf = outcome.found_inf;
  record.grad_norm = outcome.norm;
  record.loss_sum = outcome.loss_sum;
  record.samples = has_ranks() ? window.planned : window.valid;
  record.lr = lr;
  record.nonfinite = outcome.nonfinite;
  recorder_.record(record);

  scaler_.update_from_found_inf(outcome.found_inf);
  counters_.steps_done.add_(1 - outcome.found_inf.to(at::kLong));
  counters_.windows.add_(1);
}

}  // namespace ampctl::train
