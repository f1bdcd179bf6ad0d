#include "launch/local_world.h"

#include <algorithm>

#include "base/error.h"

namespace ampctl::launch {
namespace {

std::string gpus_text(int64_t count) { return std::to_string(count) + (count == 1 ? " GPU" : " GPUs"); }

int64_t ranks_of_gpus(const WorldRequest& request, int64_t gpus) {
  if (request.device == "cpu") {
    throw usage_error("--nproc-per-node gpu contradicts device: cpu: give a number of processes");
  }
  if (gpus == 0) {
    throw environment_error(
        "--nproc-per-node gpu: no GPU is visible here; see 'ampctl env', or give a number of processes with "
        "device: cpu");
  }
  return gpus;
}

int64_t share_of_node(int64_t world_size, int64_t nodes) {
  if (world_size % nodes != 0) {
    throw usage_error("distributed.world_size is " + std::to_string(world_size) +
                      ", which does not divide among --nnodes " + std::to_string(nodes) +
                      ": every node starts as many processes; give --nproc-per-node and leave "
                      "distributed.world_size at auto");
  }
  return world_size / nodes;
}

int64_t ranks_here(const LaunchPlan& plan, const WorldRequest& request, int64_t gpus) {
  if (plan.per_node == PerNode::number) return plan.ranks_per_node;
  if (plan.per_node == PerNode::gpu) return ranks_of_gpus(request, gpus);
  if (request.world_size) return share_of_node(*request.world_size, plan.nodes);
  // Without a GPU the one process says what is missing, or trains on the CPU.
  return request.device == "cpu" || request.one_process ? 1 : std::max<int64_t>(gpus, 1);
}

}  // namespace

LocalWorld local_world(const LaunchPlan& plan, const WorldRequest& request,
                       const std::vector<VisibleGpu>& gpus) {
  const auto visible = static_cast<int64_t>(gpus.size());
  LocalWorld world;
  world.local_world_size = ranks_here(plan, request, visible);
  world.world_size = plan.nodes * world.local_world_size;
  world.first_rank = plan.node_rank * world.local_world_size;
  if (request.world_size && *request.world_size != world.world_size) {
    throw usage_error("distributed.world_size is " + std::to_string(*request.world_size) + ", but --nnodes " +
                      std::to_string(plan.nodes) + " times " + std::to_string(world.local_world_size) +
                      " processes a node are " + std::to_string(world.world_size) +
                      ": leave distributed.world_size at auto, or change --nproc-per-node");
  }
  if (request.one_process && world.world_size > 1) {
    throw usage_error("distributed.strategy data_parallel is one process for all GPUs, but " +
                      std::to_string(world.world_size) +
                      " processes are asked for: start one, or set distributed.strategy=ddp");
  }
  const bool on_gpus = request.device == "cuda" || (request.device == "auto" && visible > 0);
  if (on_gpus && world.local_world_size > std::max<int64_t>(visible, 1)) {
    throw environment_error(std::to_string(world.local_world_size) +
                            " processes a node need as many GPUs, but " + gpus_text(visible) +
                            (visible == 1 ? " is" : " are") +
                            " visible here: lower --nproc-per-node or distributed.world_size, look at "
                            "CUDA_VISIBLE_DEVICES and 'ampctl env', or set device=cpu");
  }
  return world;
}

}  // namespace ampctl::launch
