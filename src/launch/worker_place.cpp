#include "launch/worker_place.h"

#include <limits>

#include <unistd.h>

#include "base/error.h"
#include "launch/slurm.h"

namespace ampctl::launch {
namespace {

struct Launcher {
  const char* name;
  const char* rank;
  const char* local_rank;
  const char* world_size;
};

constexpr Launcher kTorchrun{"torchrun", "RANK", "LOCAL_RANK", "WORLD_SIZE"};
constexpr Launcher kPmi{"PMI", "PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"};
constexpr Launcher kOpenMpi{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                            "OMPI_COMM_WORLD_SIZE"};
constexpr Launcher kSlurm{"Slurm", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"};

constexpr const char* kLoopback = "127.0.0.1";

// Below the ports that the kernel hands to clients (32768 and up on Linux), above those of known services.
constexpr uint64_t kFirstPort = 15000;
constexpr uint64_t kPorts = 15000;

std::string way_out(const Launcher& launcher) {
  return std::string("; to run outside a job: env -u ") + launcher.rank + " -u " + launcher.local_rank +
         " -u " + launcher.world_size + " ampctl …";
}

std::string text(const Variables& variables, const char* name) {
  const std::string* value = find(variables, name);
  return value == nullptr ? "" : *value;
}

// FNV-1a: the same on every rank and host, unlike std::hash.
uint16_t port_of(const std::string& identity) {
  constexpr uint64_t kBasis = 14695981039346656037U;
  constexpr uint64_t kPrime = 1099511628211U;
  uint64_t hash = kBasis;
  for (const char byte : identity) hash = (hash ^ static_cast<unsigned char>(byte)) * kPrime;
  return static_cast<uint16_t>(kFirstPort + hash % kPorts);
}

std::optional<int> descriptor(const Variables& variables, const char* name) {
  const auto value = number(variables, name);
  if (!value) return std::nullopt;
  if (*value > std::numeric_limits<int>::max()) {
    throw usage_error(std::string("environment variable ") + name +
                      ": no file descriptor: " + std::to_string(*value));
  }
  return static_cast<int>(*value);
}

// A shell that srun or salloc gave somebody hands its variables to what is typed there, and so does a batch
// script's. Tasks that srun starts from such a shell are known by their process id.
bool is_slurm_task(const Variables& variables) {
  const std::string* job_name = find(variables, "SLURM_JOB_NAME");
  const bool interactive = job_name != nullptr && (*job_name == "interactive" || *job_name == "bash");
  const bool started_by_srun = text(variables, "SLURM_TASK_PID") == std::to_string(getpid());
  return find(variables, "SLURM_STEP_ID") != nullptr && find(variables, kSlurm.rank) != nullptr &&
         (started_by_srun || !interactive);
}

// People export torchrun's names by hand, so any of them asks for the rest.
bool is_torchrun(const Variables& variables) {
  return find(variables, kTorchrun.rank) != nullptr || find(variables, kTorchrun.world_size) != nullptr ||
         find(variables, kTorchrun.local_rank) != nullptr;
}

// PyTorchJob's pods know nothing of local ranks.
bool is_pytorch_job(const Variables& variables) {
  return find(variables, kTorchrun.local_rank) == nullptr && find(variables, kTorchrun.rank) != nullptr &&
         find(variables, kTorchrun.world_size) != nullptr && find(variables, "MASTER_ADDR") != nullptr &&
         find(variables, "MASTER_PORT") != nullptr;
}

// Slurm's own PMI plugin sets PMI_RANK without a local rank: there the task's variables say more.
bool is_pmi(const Variables& variables) {
  return find(variables, kPmi.rank) != nullptr &&
         (find(variables, kPmi.local_rank) != nullptr || !is_slurm_task(variables));
}

WorkerPlace ranks(const Variables& variables, const Launcher& launcher) {
  const std::string remedy = way_out(launcher);
  const auto missing = [&](const char* name) {
    return usage_error(std::string("environment variable ") + name + " is missing, though others of " +
                       launcher.name + " are set (expected " + launcher.rank + ", " + launcher.local_rank +
                       " and " + launcher.world_size + " together)" + remedy);
  };
  const auto world = number(variables, launcher.world_size, remedy);
  if (!world) throw missing(launcher.world_size);
  const auto rank = number(variables, launcher.rank, remedy);
  const auto local_rank = number(variables, launcher.local_rank, remedy);
  const bool alone = *world == 1;
  if (!rank && !alone) throw missing(launcher.rank);
  if (!local_rank && !alone) throw missing(launcher.local_rank);

  WorkerPlace place;
  place.launcher = launcher.name;
  place.evidence = std::string(launcher.world_size) + "=" + std::to_string(*world);
  place.world_size = *world;
  place.rank = rank.value_or(0);
  place.local_rank = local_rank.value_or(0);
  if (place.rank >= place.world_size || place.local_rank >= place.world_size) {
    throw usage_error("environment variables contradict each other: " + place.evidence + " but " +
                      launcher.rank + "=" + std::to_string(place.rank) + " and " + launcher.local_rank + "=" +
                      std::to_string(place.local_rank) + " (both must be smaller)" + remedy);
  }
  return place;
}

void set_local_world(WorkerPlace& place, const std::optional<int64_t>& told) {
  place.local_world_size = told.value_or(place.local_rank + 1);
  if (place.local_rank >= place.local_world_size || place.local_world_size > place.world_size) {
    throw usage_error("environment variables contradict each other: " + place.launcher + " says that " +
                      std::to_string(place.local_world_size) + " of " + std::to_string(place.world_size) +
                      " ranks are on this host, and that this one's local rank is " +
                      std::to_string(place.local_rank));
  }
}

void set_master(WorkerPlace& place, const Variables& variables, const std::string& address,
                const std::string& identity) {
  if (place.world_size == 1) return;
  constexpr int64_t kLastPort = std::numeric_limits<uint16_t>::max();
  const auto export_both = [&](const std::string& reason) {
    return usage_error(reason +
                       ": export MASTER_ADDR (the host of rank 0) and MASTER_PORT (a free port there)"
                       " for every rank");
  };
  place.master_addr = find(variables, "MASTER_ADDR") != nullptr ? text(variables, "MASTER_ADDR") : address;
  if (place.master_addr.empty()) {
    throw export_both(place.launcher + " started " + std::to_string(place.world_size) +
                      " ranks on several hosts, but does not say where rank 0 is");
  }
  const auto port = number(variables, "MASTER_PORT");
  if (port && (*port == 0 || *port > kLastPort)) {
    throw usage_error("environment variable MASTER_PORT: expected 1 to 65535, found " +
                      std::to_string(*port));
  }
  if (!port && identity.empty()) {
    throw export_both(place.launcher + " started " + std::to_string(place.world_size) +
                      " ranks, but nothing tells them a port to meet at");
  }
  place.master_port = port ? static_cast<uint16_t>(*port) : port_of(identity);
}

WorkerPlace torchrun_place(const Variables& variables) {
  WorkerPlace place = ranks(variables, kTorchrun);
  set_local_world(place, number(variables, "LOCAL_WORLD_SIZE"));
  set_master(place, variables, "", "");
  place.launcher_fd = descriptor(variables, kLauncherVariable);
  if (place.launcher_fd) place.launcher = "ampctl";
  place.hosts_store = text(variables, "TORCHELASTIC_USE_AGENT_STORE") != "True";
  if (place.rank == 0) place.store_listen_fd = descriptor(variables, kStoreVariable);
  place.run_id = text(variables, "TORCHELASTIC_RUN_ID");
  place.restart_count = number(variables, "TORCHELASTIC_RESTART_COUNT").value_or(0);
  place.max_restarts = number(variables, "TORCHELASTIC_MAX_RESTARTS").value_or(0);
  return place;
}

WorkerPlace pytorch_job_place(const Variables& variables) {
  const auto per_pod = text(variables, "PET_NPROC_PER_NODE");
  if (!per_pod.empty() && per_pod != "auto" && per_pod != "gpu" && per_pod != "cpu" &&
      number(variables, "PET_NPROC_PER_NODE").value_or(1) > 1) {
    throw usage_error(
        "PyTorchJob asks for " + per_pod +
        " processes in each pod (PET_NPROC_PER_NODE): start them with torchrun --no-python ampctl "
        "train …, or give every pod one GPU");
  }
  Variables complete = variables;
  complete[kTorchrun.local_rank] = "0";
  WorkerPlace place = torchrun_place(complete);
  place.launcher = "Kubernetes";
  return place;
}

WorkerPlace mpi_place(const Variables& variables, const Launcher& launcher, const char* local_size,
                      const std::string& identity) {
  WorkerPlace place = ranks(variables, launcher);
  const auto local = number(variables, local_size);
  set_local_world(place, local);
  set_master(place, variables, local == place.world_size ? kLoopback : "", identity);
  place.run_id = identity;
  return place;
}

WorkerPlace slurm_place(const Variables& variables) {
  Launcher launcher = kSlurm;
  if (find(variables, "SLURM_STEP_NUM_TASKS") != nullptr) launcher.world_size = "SLURM_STEP_NUM_TASKS";
  WorkerPlace place = ranks(variables, launcher);
  const auto per_node = find(variables, "SLURM_STEP_TASKS_PER_NODE") != nullptr
                            ? text(variables, "SLURM_STEP_TASKS_PER_NODE")
                            : text(variables, "SLURM_TASKS_PER_NODE");
  set_local_world(place, tasks_on_node(per_node, number(variables, "SLURM_NODEID").value_or(0)));
  std::string address;
  if (place.local_world_size == place.world_size) {
    address = kLoopback;
  } else {
    for (const char* name : {"SLURM_NODELIST", "SLURM_JOB_NODELIST", "SLURM_STEP_NODELIST"}) {
      if (const std::string* nodes = find(variables, name); nodes != nullptr) address = first_host(*nodes);
    }
  }
  place.run_id = text(variables, "SLURM_JOB_ID") + "." + text(variables, "SLURM_STEP_ID");
  set_master(place, variables, address,
             "slurm " + place.run_id + " " + text(variables, "SLURM_RESTART_COUNT"));
  return place;
}

WorkerPlace launchers_place(const Variables& variables) {
  if (is_pytorch_job(variables)) return pytorch_job_place(variables);
  if (is_torchrun(variables)) return torchrun_place(variables);
  if (is_pmi(variables)) return mpi_place(variables, kPmi, "MPI_LOCALNRANKS", text(variables, "PMI_JOBID"));
  if (find(variables, kOpenMpi.rank) != nullptr) {
    const std::string space = text(variables, "PMIX_NAMESPACE");
    return mpi_place(variables, kOpenMpi, "OMPI_COMM_WORLD_LOCAL_SIZE",
                     space.empty() ? text(variables, "OMPI_MCA_ess_base_jobid") : space);
  }
  return is_slurm_task(variables) ? slurm_place(variables) : WorkerPlace{};
}

}  // namespace

WorkerPlace worker_place(const Variables& variables) {
  WorkerPlace place = launchers_place(variables);
  place.restart_count += number(variables, "SLURM_RESTART_COUNT").value_or(0);
  if (const auto file = text(variables, "TORCHELASTIC_ERROR_FILE"); !file.empty()) place.error_file = file;
  return place;
}

int64_t world_size(const std::optional<int64_t>& configured, const WorkerPlace& place) {
  const bool in_job = !place.launcher.empty();
  if (configured && in_job && *configured != place.world_size) {
    throw usage_error("distributed.world_size is " + std::to_string(*configured) + ", but " + place.launcher +
                      " says " + place.evidence +
                      ": leave distributed.world_size at auto, or start as many processes");
  }
  return configured ? *configured : place.world_size;
}

}  // namespace ampctl::launch
