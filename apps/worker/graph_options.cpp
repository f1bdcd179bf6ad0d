#include "graph_options.h"

#include <optional>
#include <string>

#include "nn/layer_tree.h"
#include "ranks.h"

namespace ampctl::worker {
namespace {

std::optional<std::string> obstacle(const config::RunPlan& plan, const dist::World& world,
                                    const nn::Layer& model) {
  const auto& distributed = plan.config.distributed;
  if (!plan.config.optimizer.fused) return "optimizer.fused is false, and such a step reads the device";
  if (distributed.strategy == "data_parallel")
    return "distributed.strategy: data_parallel runs its replicas from threads of the host";
  if (auto reason = nn::capture_obstacle(model)) return reason;
  if (world.size() == 1) return std::nullopt;
  if (backend_for(distributed, world.device()) != "nccl")
    return "distributed.backend: gloo reduces gradients on the host";
  if (distributed.find_unused_parameters)
    return "distributed.find_unused_parameters looks at the host which gradients there are";
  return std::nullopt;
}

}  // namespace

train::GraphOptions graph_options(const config::RunPlan& plan, const dist::World& world,
                                  const nn::Layer& model) {
  train::GraphOptions options;
  options.wanted = plan.config.train.cuda_graph;
  options.obstacle = obstacle(plan, world, model);
  options.has_ranks = world.size() > 1;
  if (options.has_ranks) options.warm_up_steps = train::GraphOptions::kWarmUpRanks;
  return options;
}

}  // namespace ampctl::worker
