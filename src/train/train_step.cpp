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
  if (ddp.gradients_are_bucket_views()) slots_ = std::make_unique<nn::GradientSlots>(model_);
}

void TrainStep::before_capture() const {
  if (has_ranks()) world_->settle();
}

void TrainStep::replayed() const {
  if (has_ranks()) world_->launched_graph();
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
  find_places();
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

// The gradients of the last window lie in the Reducer's buckets, which stay where they are once it has put
// them in order behind the first one.
void TrainStep::find_places() {
  if (slots_ == nullptr) return;
  std::vector<std::pair<at::Tensor, at::Tensor>> places;
  for (const auto& parameter : model_.parameters()) {
    if (parameter.grad().defined()) places.emplace_back(parameter, parameter.grad());
  }
  slots_->set(places);
}

// Reduced gradients are equal everywhere, and so is what was found in them; yet every rank takes the verdict
// of all, so that scale, skips and schedule cannot part even if a rank's memory is faulty.
void TrainStep::agree(kernels::StepFindings& findings, const Window& window) const {
  const StepPhase phase(kCommunicationPhase);
  const auto sums = at::TensorOptions().device(lr_table_.device()).dtype(at::kDouble);
  at::Tensor joint = at::stack({findings.found_inf.to(at::kDouble), findings.loss_sum.to(at::kDouble),
                                at::full({}, static_cast<double>(window.valid), sums)});
  dist::all_reduce_sum_(*world_, joint);
  findings.found_inf = joint.select(0, 0);
  findings.loss_sum = joint.select(0, 1);
  if (!options_.samples_vary) return;
  // Gradients were weighted by the samples planned; the optimizer's division corrects that to those there
  // are.
  findings.samples = joint.select(0, 2);
  findings.planned_samples = static_cast<double>(window.planned);
}

kernels::StepRules TrainStep::rules() const {
  kernels::StepRules rules;
  rules.growth_factor = scaler_.get_growth_factor();
  rules.backoff_factor = scaler_.get_backoff_factor();
  rules.growth_interval = scaler_.get_growth_interval();
  // The optimizer divides by one number anyway: clipping by norm costs no pass of its own. Values are clamped
  // first, where both are asked for.
  if (!options_.clip_grad_value) rules.clip_grad_norm = options_.clip_grad_norm;
  return rules;
}

// Clamping needs the unscaled values themselves; nothing is left to divide by behind it.
void TrainStep::clip_values(const at::Tensor& grad_scale) const {
  const std::vector<at::Tensor> grads = optimizer_.gradients();
  optim::scale_(grads, grad_scale.reciprocal());
  optim::clip_grad_value_(grads, *options_.clip_grad_value);
  if (!options_.clip_grad_norm) return;
  const at::Tensor norm = optim::grad_norm(grads, {});
  optim::scale_(grads, optim::clip_coefficient(norm, *options_.clip_grad_norm));
}

void TrainStep::update(const Window& window) {
  const StepPhase phase(kOptimizerPhase);
  const at::NoGradGuard no_grad;
  const kernels::GradStats stats = kernels::grad_stats(optimizer_.gradients_or_undefined());
  kernels::StepFindings findings;
  findings.found_inf = stats.found_inf;
  findings.norm = stats.norm;
  findings.loss_sum = window.loss_sum;
  if (has_ranks()) agree(findings, window);

  const kernels::StepState state{lr_table_, counters_.steps_done, counters_.windows, scaler_.scale_tensor(),
                                 scaler_.growth_tracker_tensor()};
  const kernels::StepDecisions step = kernels::step_control_(state, findings, rules());
  at::Tensor grad_scale = step.grad_scale;
  if (options_.clip_grad_value) {
    clip_values(grad_scale);
    grad_scale = at::Tensor();
  }
  optimizer_.step({step.lr, step.step, grad_scale, step.found_inf});
  buffers_.restore_if(step.found_inf);

  amp::RecordedStep record;
  record.step = step.window;
  record.scale = step.scale;
  record.growth_tracker = step.growth_tracker;
  record.found_inf = step.found_inf;
  record.grad_norm = step.norm;
  record.loss_sum = step.loss_sum;
  record.samples = has_ranks() ? window.planned : window.valid;
  record.lr = step.lr;
  record.nonfinite = stats.nonfinite;
  recorder_.record(record);
}

}  // namespace ampctl::train
