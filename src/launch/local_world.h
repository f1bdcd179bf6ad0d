// How many ranks a launcher starts here, and of how many in all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/launch_options.h"
#include "launch/visible_gpus.h"

namespace ampctl::launch {

/// What the experiment file asks for.
struct WorldRequest {
  std::optional<int64_t> world_size;  ///< distributed.world_size; nothing for auto
  std::string device;                 ///< cuda | cpu | auto
  bool one_process = false;           ///< distributed.strategy: data_parallel, one process for all GPUs
};

struct LocalWorld {
  int64_t world_size = 1;
  int64_t local_world_size = 1;
  int64_t first_rank = 0;
};

/// --nproc-per-node decides, then distributed.world_size shared evenly among the nodes, then the GPUs that
/// are visible here. Refused before anything starts: numbers that contradict each other (usage), and more
/// ranks than GPUs where they train on GPUs (environment).
[[nodiscard]] LocalWorld local_world(const LaunchPlan& plan, const WorldRequest& request,
                                     const std::vector<VisibleGpu>& gpus);

}  // namespace ampctl::launch
