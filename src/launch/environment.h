// Which process of which job this one is, as its launcher's variables say.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace ampctl::launch {

using Variables = std::map<std::string, std::string>;

/// This process's environment.
[[nodiscard]] Variables process_variables();

/// A process's place in a job of `world_size` processes.
struct Job {
  std::string launcher;  ///< "torchrun", "PMI", "Open MPI" or "Slurm"
  std::string evidence;  ///< the variable that told the world size, e.g. "WORLD_SIZE=2"
  int64_t rank = 0;
  int64_t local_rank = 0;
  int64_t world_size = 1;
};

/// The job that the variables describe; nothing when no launcher set any. One launcher's variables are taken
/// together, the innermost launcher first:
///   torchrun   RANK, LOCAL_RANK, WORLD_SIZE
///   PMI        PMI_RANK, MPI_LOCALRANKID, PMI_SIZE (Intel MPI, MPICH)
///   Open MPI   OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_LOCAL_RANK, OMPI_COMM_WORLD_SIZE
///   Slurm      SLURM_PROCID, SLURM_LOCALID, SLURM_NTASKS
/// Slurm's count only in a task that srun started: an interactive shell, or the body of a batch script, has
/// the allocation's task count without being one of those tasks. Open MPI comes before Slurm since the ranks
/// of an mpirun inside an allocation inherit the variables of the task that started them.
/// Throws a usage error when the variables are incomplete or contradict each other.
[[nodiscard]] std::optional<Job> detect_job(const Variables& variables);

/// The world's size for a configuration that asks for `configured` processes (nothing: whatever the job has).
/// Throws a usage error when that contradicts the job.
[[nodiscard]] int64_t world_size(const std::optional<int64_t>& configured, const std::optional<Job>& job);

/// Refuses a world of more than one process, which this version cannot train: a usage error, so that nothing
/// trains as one where more was asked for.
void require_world_of_one(const std::optional<int64_t>& configured, const std::optional<Job>& job);

}  // namespace ampctl::launch
