// The environment of a worker: torchrun's variables, and this launcher's own.
#pragma once

#include <cstdint>
#include <filesystem>

#include "launch/environment.h"
#include "launch/launch_job.h"

namespace ampctl::launch {

/// What differs from attempt to attempt, or between the ranks of one.
struct WorkerStart {
  int64_t local_rank = 0;
  int64_t attempt = 0;
  uint16_t store_port = 0;
  int store_fd = -1;     ///< rank 0 only: the store's listening socket
  int launcher_fd = -1;  ///< read end of the pipe that ends with the launcher
  std::filesystem::path error_file;
};

/// The launcher's own environment with RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK,
/// GROUP_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_* and AMPCTL_*, and OMP_NUM_THREADS where it is
/// not set.
[[nodiscard]] Variables worker_variables(const LaunchJob& job, const WorkerStart& start);

}  // namespace ampctl::launch
