// Device work recorded once as a CUDA graph and replayed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <c10/core/Device.h>

namespace ampctl::train {

/// Memory that several captures use one after the other. Replays must not overlap, and nothing that one
/// replay leaves in this memory may be needed after another graph's.
class GraphPool {
 public:
  /// Throws an internal error where graphs cannot be had (see has_step_graphs).
  explicit GraphPool(c10::Device device);
  ~GraphPool();
  GraphPool(const GraphPool&) = delete;
  GraphPool& operator=(const GraphPool&) = delete;

 private:
  friend class StepGraph;
  struct State;
  std::unique_ptr<State> state_;
};

/// True on CUDA devices, in builds that have CUDA.
bool has_step_graphs(c10::Device device);

class StepGraph {
 public:
  /// Records what `body` enqueues on the current stream, which must not be the default one. Nothing runs yet.
  /// Other threads may go on using the device meanwhile (capture mode "thread local"), so that loaders and
  /// NCCL's watchdog are not disturbed. The default random generator's place moves on with every replay, as
  /// it would in an eager run. Whatever `body` throws is passed on, and nothing has been recorded.
  StepGraph(GraphPool& pool, const std::function<void()>& body);
  ~StepGraph();
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  /// Enqueues the recorded work on the current stream.
  void replay();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Keeps the host from running ahead of the device by more than a few steps: a whole step is one launch, and
/// the driver would queue a thousand of them, so that a request to stop, a divergence or a stuck collective
/// would be noticed that much later. The device never waits for it.
class StepsInFlight {
 public:
  static constexpr int64_t kMost = 8;

  explicit StepsInFlight(c10::Device device);
  ~StepsInFlight();
  StepsInFlight(const StepsInFlight&) = delete;
  StepsInFlight& operator=(const StepsInFlight&) = delete;

  /// Sleeps until fewer than kMost of the steps that were added have not ended. At once on the CPU.
  void wait_for_room();
  /// Behind what has been enqueued on the current stream for a step.
  void add();

 private:
  struct State;
  std::unique_ptr<State> state_;  // null on the CPU
};

}  // namespace ampctl::train
