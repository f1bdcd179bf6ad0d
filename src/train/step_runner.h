// Runs the training step: eagerly, or as one replayed CUDA graph a shape of window.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/batch.h"
#include "train/step_graph.h"
#include "train/train_step.h"

namespace ampctl::train {

struct GraphOptions {
  bool wanted = true;                   ///< train.cuda_graph
  std::optional<std::string> obstacle;  ///< why this run's steps cannot be captured, if so
  int64_t warm_up_steps = kWarmUpAlone;
  bool has_ranks = false;

  /// Lazy initialisation, cuDNN's timing of its algorithms and the allocator must be through.
  static constexpr int64_t kWarmUpAlone = 3;
  /// With DistributedDataParallel the Reducer rebuilds its buckets and gathers its statistics first
  /// (PyTorch's notes on CUDA graphs ask for 11 steps).
  static constexpr int64_t kWarmUpRanks = 11;
};

/// The step stays the same function (TrainStep::run); a graph of it reads copies of the window's batches that
/// lie at fixed addresses. A shape (sizes of the micro-batches, their dtypes, samples of the whole window) is
/// run eagerly once, then captured, then replayed; the first ones only after the warm-up. All graphs of a run
/// share their memory.
///
/// The current stream must be the same one, not the default one, in every call. Graphs hold collectives: with
/// ranks this must be destroyed before the World is left.
class StepRunner {
 public:
  /// More shapes than these run eagerly. Epochs need two: full windows and the last one.
  static constexpr size_t kMostGraphs = 8;

  /// `step` outlives this.
  StepRunner(TrainStep& step, c10::Device device, GraphOptions options);

  /// As TrainStep::run. A capture that fails is told in take_notice and the steps stay eager; with ranks it
  /// is an error instead, since the Reducer cannot go on after a backward pass that broke off.
  void run(const std::vector<data::Batch>& window, int64_t window_samples = 0);

  struct Notice {
    std::string text;
    bool warning = false;  ///< something went wrong, rather than does not apply
  };
  /// Why steps run eagerly though train.cuda_graph asks for graphs; each reason once.
  [[nodiscard]] std::optional<Notice> take_notice();

  /// Graphs held at the moment.
  [[nodiscard]] size_t graphs() const { return captured_.size(); }

 private:
  using Shape = std::vector<int64_t>;
  struct Captured {
    std::vector<data::Batch> inputs;  // what the graph reads
    std::unique_ptr<StepGraph> graph;
  };

  [[nodiscard]] bool may_capture(const Shape& shape);
  void run_captured(Captured& captured, const std::vector<data::Batch>& window);
  bool capture(const Shape& shape, const std::vector<data::Batch>& window, int64_t window_samples);
  void stay_eager(const std::string& reason, bool warning);

  TrainStep& step_;
  c10::Device device_;
  GraphOptions options_;
  bool eager_;
  StepsInFlight in_flight_;
  std::unique_ptr<GraphPool> pool_;       // before the graphs, which lie in it
  std::map<Shape, int64_t> eager_steps_;  // by shape
  int64_t total_eager_steps_ = 0;
  std::map<Shape, Captured> captured_;
  bool too_many_shapes_told_ = false;
  std::optional<Notice> notice_;
};

}  // namespace ampctl::train
