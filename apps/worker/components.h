// From the plan to the objects that train: model, optimizer, scaler, recorder, step, loaders.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "amp/grad_scaler.h"
#include "amp/scale_recorder.h"
#include "config/run_plan.h"
#include "data/dataset.h"
#include "data/loader.h"
#include "dist/distributed_data_parallel.h"
#include "dist/world.h"
#include "nn/layer.h"
#include "nn/working_weights.h"
#include "optim/optimizer.h"
#include "train/buffer_arena.h"
#include "train/data_parallel.h"
#include "train/train_step.h"

namespace ampctl::worker {

/// The model on its device, in its memory format, with amp.fp32_modules and
/// train.activation_checkpointing marked and model.weights loaded.
nn::LayerPtr build_model(const config::RunPlan& plan, c10::Device device);

/// How a forward pass runs under this plan: autocast, its dtype and cache; clipping; loss options.
train::StepOptions step_options(const config::RunPlan& plan);

/// Loaders of this rank's part; `stop` (may be null) ends their waits.
std::unique_ptr<data::Loader> build_train_loader(const config::RunPlan& plan, data::DatasetPtr dataset,
                                                 const dist::World& world, const std::atomic<bool>* stop);
std::unique_ptr<data::Loader> build_eval_loader(const config::RunPlan& plan, data::DatasetPtr dataset,
                                                const dist::World& world, const std::atomic<bool>* stop);

/// What a training run owns, made in this order and destroyed in the opposite one.
struct TrainComponents {
  nn::LayerPtr model;
  std::vector<std::string> parameter_names;  ///< in the optimizer's order
  std::unique_ptr<train::BufferArena> buffers;
  std::unique_ptr<nn::WorkingWeights> working_weights;  ///< null: autocast casts weights in each forward
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<amp::GradScaler> scaler;
  std::unique_ptr<amp::ScaleRecorder> recorder;
  std::unique_ptr<train::DataParallel> replicas;  ///< null: one device
  std::unique_ptr<train::TrainStep> step;
};
TrainComponents build_training(const config::RunPlan& plan, c10::Device device);

/// Makes the step one of all ranks of `world`, which outlives it: gradients averaged, batch norms
/// synchronised where the plan says so. Collective. What it returns must live as long as the step.
[[nodiscard]] std::unique_ptr<dist::DistributedDataParallel> join_ranks(const config::RunPlan& plan,
                                                                        const dist::World& world,
                                                                        TrainComponents& parts);

}  // namespace ampctl::worker
