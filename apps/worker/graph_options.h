// Whether this run's steps can be replayed as CUDA graphs.
#pragma once

#include "config/run_plan.h"
#include "dist/world.h"
#include "nn/layer.h"
#include "train/step_runner.h"

namespace ampctl::worker {

/// From the plan and the model: train.cuda_graph, and what would make the host take part in each step.
train::GraphOptions graph_options(const config::RunPlan& plan, const dist::World& world,
                                  const nn::Layer& model);

}  // namespace ampctl::worker
