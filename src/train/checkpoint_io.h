// Between live training state and checkpoint folders (checkpoint/checkpoint.h): tensors, scaler, generators,
// cursor.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "amp/grad_scaler.h"
#include "config/run_plan.h"
#include "dist/world.h"
#include "nn/layer.h"
#include "nn/working_weights.h"
#include "optim/optimizer.h"
#include "train/named_tensors.h"
#include "train/progress.h"
#include "train/train_step.h"

namespace ampctl::train {

/// Parameters under the field's names, sharing memory with the model.
NamedTensors named_parameters(const nn::Layer& model);

/// Parameters and buffers under the field's names, sharing memory with the model.
NamedTensors named_weights(const nn::Layer& model);

/// Copies tensors of a safetensors file into `targets` in place. Every target must be there with its shape
/// and dtype, and nothing else; otherwise one environment error names what is missing, unexpected or
/// different.
void load_tensors(const std::filesystem::path& path, const NamedTensors& targets);

/// The live objects whose state a checkpoint holds; all outlive this.
struct LiveState {
  nn::Layer& model;
  optim::Optimizer& optimizer;
  amp::GradScaler& scaler;
  TrainStep& step;
  c10::Device device;
  nn::WorkingWeights* working_weights = nullptr;  ///< of the model, if it has any
};

/// Writes `<checkpoints>/step-<windows>`, lets `written` act on it (links, retention) and returns its path.
/// Reads the device. Collective: rank 0 writes, with every rank's generators; when it fails it throws what
/// went wrong and the others a peer error that repeats it.
std::filesystem::path save_checkpoint(const std::filesystem::path& checkpoints, const LiveState& live,
                                      const Progress& progress, const config::RunPlan& plan,
                                      const std::vector<std::string>& class_names, const dist::World& world,
                                      const std::function<void(const std::filesystem::path&)>& written);

/// Restores everything from a verified folder; every rank reads it. Throws a usage error that lists each key
/// of the plan that differs and may not (config::may_change_on_resume). Written by another number of ranks,
/// its generators fit none of the present ones, which are then seeded anew (seed_rank).
Progress load_checkpoint(const std::filesystem::path& folder, const LiveState& live,
                         const config::RunPlan& plan, const dist::World& world);

/// The resolved configuration a checkpoint was made with.
config::ExperimentConfig checkpoint_config(const std::filesystem::path& folder);

}  // namespace ampctl::train
