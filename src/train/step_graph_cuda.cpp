#include <deque>
#include <exception>

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include "train/step_graph.h"

namespace ampctl::train {

namespace allocator = c10::cuda::CUDACachingAllocator;

struct GraphPool::State {
  c10::DeviceIndex device;
  at::cuda::MempoolId_t id;
};

GraphPool::GraphPool(c10::Device device)
    : state_(std::make_unique<State>(State{device.index(), at::cuda::graph_pool_handle()})) {}
GraphPool::~GraphPool() = default;

bool has_step_graphs(c10::Device device) { return device.is_cuda(); }

struct StepGraph::State {
  at::cuda::CUDAGraph graph;
};

StepGraph::StepGraph(GraphPool& pool, const std::function<void()>& body) : state_(std::make_unique<State>()) {
  // What earlier eager steps left in the allocator's cache is of no use to the graph, whose memory is its
  // own.
  allocator::emptyCache();
  state_->graph.capture_begin(pool.state_->id, cudaStreamCaptureModeThreadLocal);
  std::exception_ptr failure;
  try {
    body();
  } catch (...) {
    failure = std::current_exception();
  }
  if (!failure) {
    state_->graph.capture_end();
    return;
  }
  try {
    state_->graph.capture_end();
  } catch (...) {
    // The capture was invalid already, and ending it says so again: the first failure is the one that tells
    // why. What was not reached any more is that allocations leave the pool.
    allocator::endAllocateToPool(pool.state_->device, pool.state_->id);
  }
  std::rethrow_exception(failure);
}

StepGraph::~StepGraph() = default;

void StepGraph::replay() { state_->graph.replay(); }

struct StepsInFlight::State {
  State() {
    // A sleeping host leaves its core to the loader's threads.
    for (int64_t i = 0; i < kMost; ++i) ends.emplace_back(cudaEventDisableTiming | cudaEventBlockingSync);
  }
  std::deque<at::cuda::CUDAEvent> ends;
  int64_t added = 0;

  at::cuda::CUDAEvent& oldest_or_next() { return ends.at(static_cast<size_t>(added % kMost)); }
};

StepsInFlight::StepsInFlight(c10::Device device)
    : state_(device.is_cuda() ? std::make_unique<State>() : nullptr) {}
StepsInFlight::~StepsInFlight() = default;

void StepsInFlight::wait_for_room() {
  if (state_ && state_->added >= kMost) state_->oldest_or_next().synchronize();
}

void StepsInFlight::add() {
  if (!state_) return;
  state_->oldest_or_next().record(at::cuda::getCurrentCUDAStream());
  ++state_->added;
}

}  // namespace ampctl::train
