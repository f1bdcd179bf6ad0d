// The batches of a measurement: one window after another, or one window again and again.
#pragma once

#include <cstdint>
#include <vector>

#include "config/run_plan.h"
#include "data/batch.h"
#include "data/loader.h"
#include "dist/world.h"

namespace ampctl::bench {

/// Windows of micro-batches of one rank, epoch after epoch, all of the same size (the plan must drop a last,
/// shorter one).
class WindowSource {
 public:
  /// The plan, the loader and the world outlive this.
  WindowSource(const config::RunPlan& plan, data::Loader& loader, const dist::World& world);

  /// The next window; empty when the loader was asked to stop.
  [[nodiscard]] std::vector<data::Batch> next();

 private:
  const config::RunPlan& plan_;
  data::Loader& loader_;
  int64_t share_;  // samples of a window that this rank takes
  int64_t position_ = 0;
};

}  // namespace ampctl::bench
