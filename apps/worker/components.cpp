#include "components.h"

#include <utility>

#include <ATen/Context.h>
#include <ATen/ops/tensor.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "amp/precision.h"
#include "dist/collectives.h"
#include "model/models.h"
#include "nn/layer_tree.h"
#include "optim/lr_schedule.h"
#include "optim/param_groups.h"
#include "ranks.h"
#include "train/checkpoint_io.h"

namespace ampctl::worker {
namespace {

std::unique_ptr<optim::Optimizer> build_optimizer(const config::RunPlan& plan, const nn::Layer& model) {
  const auto& config = plan.config.optimizer;
  const train::NamedTensors parameters = train::named_parameters(model);
  const auto norms = nn::norm_parameter_names(model);
  auto groups = optim::make_param_groups(parameters, {norms.begin(), norms.end()}, config);
  if (config.name == "sgd") {
    return optim::make_sgd(std::move(groups), {config.momentum, config.dampening, config.nesterov},
                           config.fused);
  }
  return optim::make_adam(
      std::move(groups),
      {config.betas[0], config.betas[1], config.eps, config.amsgrad, config.name == "adamw"}, config.fused);
}

// Weights' gradients may be computed beside the rest of the backward pass: small passes leave a GPU idle
// in part (batch 32 of 224x224 images still does); large ones would gain nothing and need more memory.
bool may_overlap_gradients(const config::RunPlan& plan) {
  constexpr int64_t kMostPixels = int64_t{1} << 21;
  const bool is_alone = plan.world_size == 1 && plan.config.distributed.strategy != "data_parallel";
  return is_alone && plan.micro_batch * plan.input_height * plan.input_width <= kMostPixels;
}

// Autocast would cast a float32 batch to the same values in its first layer; a layer forced to float32 needs
// the full ones.
c10::ScalarType image_dtype(const config::RunPlan& plan, c10::Device device) {
  const auto half = amp::autocast_dtype(plan.precision);
  return half && device.is_cuda() && plan.config.amp.fp32_modules.empty() ? *half : at::kFloat;
}

data::LoaderOptions loader_options(const config::RunPlan& plan, c10::Device device) {
  const auto& data = plan.config.data;
  data::LoaderOptions options;
  options.num_workers = data.num_workers;
  options.prefetch_factor = data.prefetch_factor;
  options.pin_memory = data.pin_memory;
  options.seed = plan.config.seed;
  options.device = device;
  options.channels_last = plan.config.model.channels_last;
  options.skip_corrupt = data.on_corrupt == "skip";
  options.max_corrupt = data.max_corrupt;
  options.dtype = image_dtype(plan, device);
  return options;
}

/// Models on the other GPUs of this process; null when the plan asks for none or there are none.
std::unique_ptr<train::DataParallel> build_replicas(const config::RunPlan& plan, nn::Layer& model,
                                                    c10::Device device) {
  if (plan.config.distributed.strategy != "data_parallel" || !device.is_cuda()) return nullptr;
  std::vector<c10::Device> others;
  const auto gpus = static_cast<int>(at::getNumGPUs());
  for (int index = 0; index < gpus; ++index) {
    const c10::Device other(at::kCUDA, static_cast<c10::DeviceIndex>(index));
    if (other != device) others.push_back(other);
  }
  if (others.empty()) return nullptr;
  return std::make_unique<train::DataParallel>(model, others,
                                               [&](c10::Device other) { return build_model(plan, other); });
}

}  // namespace

nn::LayerPtr build_model(const config::RunPlan& plan, c10::Device device) {
  nn::LayerPtr model = model::make_model(
      plan.config.model, {plan.channels, plan.input_height, plan.input_width}, plan.num_classes);
  nn::force_float32_modules(*model, plan.config.amp.fp32_modules);
  nn::checkpoint_activations(*model, plan.config.train.activation_checkpointing);
  if (plan.config.model.weights)
    train::load_tensors(*plan.config.model.weights, train::named_weights(*model));
  model->to(device);
  if (plan.config.model.channels_last) nn::to_channels_last(*model);
  return model;
}

train::StepOptions step_options(const config::RunPlan& plan) {
  train::StepOptions options;
  const auto dtype = amp::autocast_dtype(plan.precision);
  options.autocast = dtype.has_value();
  options.autocast_dtype = dtype.value_or(at::kHalf);
  options.autocast_cache = plan.config.amp.cache_enabled;
  options.clip_grad_norm = plan.config.train.clip_grad_norm;
  options.clip_grad_value = plan.config.train.clip_grad_value;
  options.task.label_smoothing = plan.config.train.label_smoothing;
  options.task.fused = plan.config.model.fused;
  options.image_shape = {plan.channels, plan.input_height, plan.input_width};
  if (plan.config.distributed.sync_batch_norm) options.synced_micro_batch = plan.micro_batch;
  options.samples_vary = plan.config.data.on_corrupt == "skip";
  return options;
}

std::unique_ptr<data::Loader> build_train_loader(const config::RunPlan& plan, data::DatasetPtr dataset,
                                                 const dist::World& world, const std::atomic<bool>* stop) {
  auto options = loader_options(plan, world.device());
  options.batch_size = plan.micro_batch;
  options.shard = {world.rank(), world.size(), plan.global_batch};
  options.drop_last = plan.config.data.drop_last;
  options.shuffle = plan.config.data.shuffle;
  return std::make_unique<data::Loader>(std::move(dataset), plan.config.data.train.transforms, options, stop);
}

std::unique_ptr<data::Loader> build_eval_loader(const config::RunPlan& plan, data::DatasetPtr dataset,
                                                const dist::World& world, const std::atomic<bool>* stop) {
  auto options = loader_options(plan, world.device());
  options.batch_size = plan.eval_batch;
  options.shard = {world.rank(), world.size(), plan.eval_batch * world.size()};
  options.shuffle = false;
  return std::make_unique<data::Loader>(std::move(dataset), plan.config.data.eval->transforms, options, stop);
}

TrainComponents build_training(const config::RunPlan& plan, c10::Device device) {
  TrainComponents parts;
  parts.model = build_model(plan, device);
  parts.buffers = std::make_unique<train::BufferArena>(*parts.model);
  parts.optimizer = build_optimizer(plan, *parts.model);
  parts.parameter_names = parts.optimizer->parameter_names();
  const auto autocast_dtype = amp::autocast_dtype(plan.precision);
  if (device.is_cuda() && autocast_dtype && plan.config.model.fused) {
    parts.working_weights = std::make_unique<nn::WorkingWeights>(*parts.model, *autocast_dtype);
    parts.optimizer->set_working_copies(parts.working_weights->copies());
    if (may_overlap_gradients(plan)) {
      const c10::impl::VirtualGuardImpl guard(device.type());
      parts.working_weights->set_gradient_stream(guard.getStreamFromGlobalPool(device));
    }
  }
  const auto& scaler = plan.config.amp.scaler;
  parts.scaler = std::make_unique<amp::GradScaler>(
      amp::GradScalerOptions{scaler.init_scale, scaler.growth_factor, scaler.backoff_factor,
                             scaler.growth_interval, plan.scaler_enabled});
  parts.recorder = std::make_unique<amp::ScaleRecorder>(
      plan.config.log.every_steps, static_cast<int64_t>(parts.parameter_names.size()), device);
  const std::vector<float> table = optim::lr_table(plan.lr);
  train::StepOptions options = step_options(plan);
  options.image_dtype = image_dtype(plan, device);
  parts.step =
      std::make_unique<train::TrainStep>(*parts.model, *parts.optimizer, *parts.scaler, *parts.recorder,
                                         *parts.buffers, at::tensor(table).to(device), options);
  parts.replicas = build_replicas(plan, *parts.model, device);
  if (parts.replicas) parts.step->spread(*parts.replicas);
  return parts;
}

std::unique_ptr<dist::DistributedDataParallel> join_ranks(const config::RunPlan& plan,
                                                          const dist::World& world, TrainComponents& parts) {
  if (plan.config.distributed.sync_batch_norm) {
    nn::convert_sync_batch_norm(*parts.model,
                                [&world](at::Tensor& sums) { dist::all_reduce_sum_(world, sums); });
  }
  auto ddp = std::make_unique<dist::DistributedDataParallel>(world, train::named_parameters(*parts.model),
                                                             parts.buffers->tensors(),
                                                             ddp_options(plan.config.distributed));
  // Parameters now are rank 0's.
  if (parts.working_weights) parts.working_weights->refresh();
  parts.step->join(world, *ddp);
  return ddp;
}

}  // namespace ampctl::worker
