// Which process of which job this one is, as its launcher's variables say.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "launch/environment.h"

namespace ampctl::launch {

/// Set by this program's launcher for its workers, beside torchrun's variables.
inline constexpr const char* kStoreVariable = "AMPCTL_STORE_FD";
inline constexpr const char* kLauncherVariable = "AMPCTL_LAUNCHER_FD";

/// A process's place in a job of `world_size` processes.
struct WorkerPlace {
  int64_t rank = 0;
  int64_t local_rank = 0;
  int64_t world_size = 1;
  int64_t local_world_size =
      1;                 ///< ranks on this host; at least local_rank + 1 when the launcher says nothing
  std::string launcher;  ///< "ampctl", "torchrun", "Slurm", "Open MPI", "PMI", "Kubernetes"; "" alone
  std::string evidence;  ///< the variable that told the world size, e.g. "WORLD_SIZE=2"; "" alone

  std::string master_addr;  ///< where the store is; "" in a world of one
  uint16_t master_port = 0;
  bool hosts_store = true;             ///< rank 0 opens the store's port; false: torchrun's agent has
  std::optional<int> store_listen_fd;  ///< rank 0 only: the store's socket, already listening

  std::string run_id;         ///< the job's name among the launcher's jobs; "" unknown
  int64_t restart_count = 0;  ///< torchrun's, this launcher's and Slurm's requeues together
  int64_t max_restarts = 0;
  std::optional<std::filesystem::path> error_file;
  std::optional<int> launcher_fd;  ///< read end of a pipe that ends when the launcher does
};

/// The place that the variables describe; a world of one when no launcher set any. One launcher's variables
/// are taken together, the innermost launcher first:
///   torchrun    RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT (and this program's own launcher)
///   Kubernetes  the same without LOCAL_RANK, as PyTorchJob sets them: one rank a pod
///   PMI         PMI_RANK, MPI_LOCALRANKID, PMI_SIZE (Intel MPI, MPICH)
///   Open MPI    OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_LOCAL_RANK, OMPI_COMM_WORLD_SIZE
///   Slurm       SLURM_PROCID, SLURM_LOCALID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS
/// Slurm's count only in a task that srun started: an interactive shell (SLURM_JOB_NAME "interactive" or
/// "bash", and another process than SLURM_TASK_PID), or the body of a batch script, has the allocation's task
/// count without being one of those tasks. Open MPI comes before Slurm since the ranks
/// of an mpirun inside an allocation inherit the variables of the task that started them.
///
/// MASTER_ADDR and MASTER_PORT are taken when set. Otherwise on one host the address is 127.0.0.1, on several
/// the first of Slurm's node list; the port comes from the job's identity, the same on every rank.
/// Throws a usage error when the variables are incomplete or contradict each other.
[[nodiscard]] WorkerPlace worker_place(const Variables& variables);

/// The world's size for a configuration that asks for `configured` processes (nothing: whatever the job has).
/// Throws a usage error when that contradicts the job.
[[nodiscard]] int64_t world_size(const std::optional<int64_t>& configured, const WorkerPlace& place);

}  // namespace ampctl::launch
