#include "launch/local_world.h"

#include "base/error.h"
#include "support/catch.h"
#include "support/matchers.h"

using ampctl::Error;
using ampctl::ErrorKind;
using ampctl::launch::LaunchPlan;
using ampctl::launch::local_world;
using ampctl::launch::LocalWorld;
using ampctl::launch::PerNode;
using ampctl::launch::VisibleGpu;
using ampctl::launch::WorldRequest;
using ampctl::test::ContainsSubstring;

namespace {

const WorldRequest kCuda{{}, "cuda", false};
const WorldRequest kCpu{{}, "cpu", false};
const WorldRequest kAny{{}, "auto", false};

std::vector<VisibleGpu> gpus(std::size_t count) { return std::vector<VisibleGpu>(count); }

LaunchPlan per_node(int64_t ranks, int64_t nodes = 1, int64_t node_rank = 0) {
  LaunchPlan plan;
  plan.per_node = PerNode::number;
  plan.ranks_per_node = ranks;
  plan.nodes = nodes;
  plan.node_rank = node_rank;
  return plan;
}

std::string refusal(ErrorKind kind, const LaunchPlan& plan, const WorldRequest& request, std::size_t count) {
  try {
    static_cast<void>(local_world(plan, request, gpus(count)));
  } catch (const Error& error) {
    CHECK(error.kind() == kind);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("auto is one rank a visible GPU where the run uses GPUs, else one rank") {
  CHECK(local_world({}, kCuda, gpus(4)).world_size == 4);
  CHECK(local_world({}, kAny, gpus(4)).world_size == 4);
  CHECK(local_world({}, kCpu, gpus(4)).world_size == 1);
  CHECK(local_world({}, kCuda, gpus(0)).world_size == 1);
  CHECK(local_world({}, {{}, "cuda", true}, gpus(4)).world_size == 1);
}

TEST_CASE("--nproc-per-node, then distributed.world_size, decide the number of ranks") {
  CHECK(local_world(per_node(3), kCpu, gpus(0)).world_size == 3);
  CHECK(local_world({}, {3, "cpu", false}, gpus(0)).world_size == 3);
  CHECK(local_world(per_node(3), {3, "cpu", false}, gpus(0)).world_size == 3);
  LaunchPlan plan;
  plan.per_node = PerNode::gpu;
  CHECK(local_world(plan, kCuda, gpus(2)).world_size == 2);
}

TEST_CASE("Ranks are numbered through the nodes") {
  const LocalWorld world = local_world(per_node(4, 3, 2), kCpu, gpus(0));
  CHECK(world.world_size == 12);
  CHECK(world.local_world_size == 4);
  CHECK(world.first_rank == 8);
  LaunchPlan plan;
  plan.nodes = 2;
  CHECK(local_world(plan, {8, "cpu", false}, gpus(0)).local_world_size == 4);
}

TEST_CASE("Numbers that contradict each other are refused") {
  CHECK_THAT(refusal(ErrorKind::usage, per_node(2, 2), {8, "cpu", false}, 0),
             ContainsSubstring("distributed.world_size is 8") && ContainsSubstring("are 4"));
  LaunchPlan plan;
  plan.nodes = 3;
  CHECK_THAT(refusal(ErrorKind::usage, plan, {8, "cpu", false}, 0), ContainsSubstring("does not divide"));
  plan = {};
  plan.per_node = PerNode::gpu;
  CHECK_THAT(refusal(ErrorKind::usage, plan, kCpu, 2), ContainsSubstring("device: cpu"));
  CHECK_THAT(refusal(ErrorKind::usage, plan, {4, "cuda", false}, 2), ContainsSubstring("world_size is 4"));
  CHECK_THAT(refusal(ErrorKind::usage, per_node(2), {{}, "cuda", true}, 2),
             ContainsSubstring("data_parallel"));
}

TEST_CASE("More ranks than GPUs are refused where ranks use GPUs") {
  CHECK_THAT(refusal(ErrorKind::environment, per_node(4), kCuda, 2),
             ContainsSubstring("4 processes") && ContainsSubstring("2 GPUs are visible") &&
                 ContainsSubstring("CUDA_VISIBLE_DEVICES"));
  CHECK_THAT(refusal(ErrorKind::environment, {}, {4, "auto", false}, 1),
             ContainsSubstring("1 GPU is visible"));
  CHECK_THAT(refusal(ErrorKind::environment, per_node(2), kCuda, 0), ContainsSubstring("0 GPUs"));
  CHECK(local_world(per_node(2), kAny, gpus(0)).world_size == 2);
  LaunchPlan plan;
  plan.per_node = PerNode::gpu;
  CHECK_THAT(refusal(ErrorKind::environment, plan, kCuda, 0), ContainsSubstring("no GPU is visible"));
}
