#include "base/error.h"
#include "train/step_graph.h"

namespace ampctl::train {

struct GraphPool::State {};

GraphPool::GraphPool(c10::Device /*device*/) {
  throw Error(ErrorKind::internal, "this build has no CUDA and cannot record graphs");
}
GraphPool::~GraphPool() = default;

bool has_step_graphs(c10::Device /*device*/) { return false; }

struct StepGraph::State {};

StepGraph::StepGraph(GraphPool& /*pool*/, const std::function<void()>& /*body*/) {
  throw Error(ErrorKind::internal, "this build has no CUDA and cannot record graphs");
}
StepGraph::~StepGraph() = default;
void StepGraph::replay() {}

struct StepsInFlight::State {};

StepsInFlight::StepsInFlight(c10::Device /*device*/) {}
StepsInFlight::~StepsInFlight() = default;
void StepsInFlight::wait_for_room() {}
void StepsInFlight::add() {}

}  // namespace ampctl::train
