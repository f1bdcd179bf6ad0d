// A few training steps that any number of ranks can take: what each rank ends with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dist/world.h"
#include "fixture.h"

namespace ampctl::test {

struct Scenario {
  SetupOptions setup;
  std::vector<int64_t> windows;  ///< samples of each step, of all ranks together
  int64_t micro_batch = 4;       ///< of a rank
  int64_t overflow_step = -1;    ///< the last rank's gradients of this step are not finite
  bool sync_batch_norm = false;  ///< alone: every window is one batch
  bool bucket_views = false;     ///< DDP's gradient_as_bucket_view
  bool captured = false;         ///< steps as CUDA graphs where possible, with all-reduces between them
  bool lose_samples = false;     ///< the last sample of every micro-batch is left out, as damaged ones are
};

/// By name; an unknown one throws.
Scenario scenario(const std::string& name);

struct Ending {
  std::vector<double> parameters;
  std::vector<amp::StepRow> rows;
  double scale = 0.0;
  int64_t steps_done = 0;
};

/// Trains this rank's part.
Ending train(const Scenario& scenario, const dist::World& world);

/// One line a fact, values exactly.
std::string to_text(const Ending& ending);

}  // namespace ampctl::test
