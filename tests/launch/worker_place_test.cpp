#include "launch/worker_place.h"

#include <unistd.h>

#include "base/error.h"
#include "support/catch.h"
#include "support/matchers.h"

using ampctl::Error;
using ampctl::ErrorKind;
using ampctl::launch::Variables;
using ampctl::launch::worker_place;
using ampctl::launch::WorkerPlace;
using ampctl::launch::world_size;
using ampctl::test::ContainsSubstring;

namespace {

std::string message_of(const Variables& variables) {
  try {
    static_cast<void>(worker_place(variables));
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::usage);
    return error.what();
  }
  FAIL("expected a usage error");
  return "";
}

Variables torchrun() {
  return {{"RANK", "5"},           {"LOCAL_RANK", "1"},     {"WORLD_SIZE", "8"}, {"LOCAL_WORLD_SIZE", "4"},
          {"MASTER_ADDR", "gpu1"}, {"MASTER_PORT", "29500"}};
}

Variables slurm_task() {
  return {{"SLURM_PROCID", "3"},
          {"SLURM_LOCALID", "1"},
          {"SLURM_NTASKS", "4"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_JOB_ID", "71"},
          {"SLURM_NODEID", "1"},
          {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
          {"SLURM_STEP_NODELIST", "gpu[07-08]"},
          {"SLURM_JOB_NAME", "train.sh"}};
}

Variables open_mpi() {
  return {{"OMPI_COMM_WORLD_RANK", "3"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
          {"OMPI_COMM_WORLD_SIZE", "4"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
          {"PMIX_NAMESPACE", "1834221569"}};
}

Variables changed(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

}  // namespace

TEST_CASE("Without a launcher's variables a process is alone") {
  for (const Variables& variables :
       {Variables{}, Variables{{"PATH", "/bin"}, {"RANK", ""}, {"MPI_LOCALRANKID", "1"}}}) {
    const WorkerPlace place = worker_place(variables);
    CHECK(place.launcher.empty());
    CHECK(place.world_size == 1);
    CHECK(place.rank == 0);
    CHECK_FALSE(place.error_file);
  }
}

TEST_CASE("torchrun's variables give the place, the master, restarts and the error file") {
  Variables variables = torchrun();
  variables.insert({{"TORCHELASTIC_RUN_ID", "job7"},
                    {"TORCHELASTIC_RESTART_COUNT", "2"},
                    {"TORCHELASTIC_MAX_RESTARTS", "3"},
                    {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                    {"TORCHELASTIC_ERROR_FILE", "/tmp/error.json"},
                    {"AMPCTL_STORE_FD", "9"}});
  const WorkerPlace place = worker_place(variables);
  CHECK(place.launcher == "torchrun");
  CHECK(place.rank == 5);
  CHECK(place.local_rank == 1);
  CHECK(place.world_size == 8);
  CHECK(place.local_world_size == 4);
  CHECK(place.master_addr == "gpu1");
  CHECK(place.master_port == 29500);
  CHECK_FALSE(place.hosts_store);
  CHECK(place.run_id == "job7");
  CHECK(place.restart_count == 2);
  CHECK(place.max_restarts == 3);
  CHECK(place.error_file == std::filesystem::path("/tmp/error.json"));
  CHECK_FALSE(place.store_listen_fd);  // rank 0's alone
  CHECK_FALSE(place.launcher_fd);
}

TEST_CASE("This program's launcher hands over descriptors; a requeue of the job counts as a restart") {
  Variables variables = changed(torchrun(), "RANK", "0");
  variables.insert({{"AMPCTL_STORE_FD", "9"},
                    {"AMPCTL_LAUNCHER_FD", "10"},
                    {"TORCHELASTIC_RESTART_COUNT", "1"},
                    {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                    {"SLURM_RESTART_COUNT", "4"}});
  const WorkerPlace place = worker_place(variables);
  CHECK(place.launcher == "ampctl");
  CHECK(place.hosts_store);
  CHECK(place.store_listen_fd == 9);
  CHECK(place.launcher_fd == 10);
  CHECK(place.restart_count == 5);
}

TEST_CASE("PyTorchJob's variables are one rank a pod") {
  const Variables variables = without(torchrun(), "LOCAL_RANK");
  const WorkerPlace place = worker_place(without(variables, "LOCAL_WORLD_SIZE"));
  CHECK(place.launcher == "Kubernetes");
  CHECK(place.rank == 5);
  CHECK(place.local_rank == 0);
  CHECK(place.local_world_size == 1);
  CHECK(place.master_addr == "gpu1");
  CHECK(place.hosts_store);
  CHECK(worker_place(changed(variables, "PET_NPROC_PER_NODE", "auto")).world_size == 8);
  CHECK_THAT(message_of(changed(variables, "PET_NPROC_PER_NODE", "2")),
             ContainsSubstring("PET_NPROC_PER_NODE") && ContainsSubstring("torchrun --no-python"));
}

TEST_CASE("Slurm's task finds its master on the step's first node, and a port of the job and step") {
  const WorkerPlace place = worker_place(slurm_task());
  CHECK(place.launcher == "Slurm");
  CHECK(place.rank == 3);
  CHECK(place.local_rank == 1);
  CHECK(place.world_size == 4);
  CHECK(place.local_world_size == 2);
  CHECK(place.master_addr == "gpu07");
  CHECK(place.master_port >= 15000);
  CHECK(place.master_port < 30000);
  CHECK(place.run_id == "71.0");
  CHECK(worker_place(changed(slurm_task(), "SLURM_PROCID", "2")).master_port == place.master_port);
  CHECK(worker_place(changed(slurm_task(), "SLURM_JOB_ID", "72")).master_port != place.master_port);
  CHECK(worker_place(changed(slurm_task(), "SLURM_STEP_ID", "1")).master_port != place.master_port);
  CHECK(worker_place(changed(slurm_task(), "SLURM_RESTART_COUNT", "1")).restart_count == 1);
  CHECK(worker_place(changed(slurm_task(), "MASTER_ADDR", "other")).master_addr == "other");
  CHECK(worker_place(changed(slurm_task(), "MASTER_PORT", "4000")).master_port == 4000);
}

TEST_CASE("A Slurm step on one node meets on loopback; its own task count beats the allocation's") {
  Variables variables = changed(slurm_task(), "SLURM_STEP_TASKS_PER_NODE", "2");
  variables["SLURM_NODEID"] = "0";
  variables["SLURM_STEP_NUM_TASKS"] = "2";
  variables["SLURM_PROCID"] = "1";
  const WorkerPlace place = worker_place(variables);
  CHECK(place.world_size == 2);
  CHECK(place.evidence == "SLURM_STEP_NUM_TASKS=2");
  CHECK(place.master_addr == "127.0.0.1");
}

TEST_CASE("A Slurm shell without a task of srun is no job") {
  Variables batch = without(slurm_task(), "SLURM_STEP_ID");
  CHECK(worker_place(batch).launcher.empty());
  batch["SLURM_STEP_ID"] = "0";
  CHECK(worker_place(batch).launcher == "Slurm");
  batch["SLURM_JOB_NAME"] = "interactive";
  CHECK(worker_place(batch).launcher.empty());
  batch["SLURM_JOB_NAME"] = "bash";
  batch["SLURM_TASK_PID"] = std::to_string(getppid());
  CHECK(worker_place(batch).launcher.empty());
}

TEST_CASE("What srun starts from an interactive shell is a task") {
  Variables task = changed(slurm_task(), "SLURM_JOB_NAME", "interactive");
  task["SLURM_TASK_PID"] = std::to_string(getpid());
  CHECK(worker_place(task).launcher == "Slurm");
}

TEST_CASE("Slurm's own PMI variables leave the task's in force") {
  Variables variables = slurm_task();
  variables.insert({{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}});
  CHECK(worker_place(variables).launcher == "Slurm");
}

TEST_CASE("Open MPI's ranks of one host meet on loopback at a port of the job") {
  const WorkerPlace place = worker_place(open_mpi());
  CHECK(place.launcher == "Open MPI");
  CHECK(place.rank == 3);
  CHECK(place.local_rank == 3);
  CHECK(place.local_world_size == 4);
  CHECK(place.master_addr == "127.0.0.1");
  CHECK(worker_place(changed(open_mpi(), "OMPI_COMM_WORLD_RANK", "1")).master_port == place.master_port);
  CHECK(worker_place(changed(open_mpi(), "PMIX_NAMESPACE", "1834221570")).master_port != place.master_port);
  CHECK(worker_place(changed(without(open_mpi(), "PMIX_NAMESPACE"), "OMPI_MCA_ess_base_jobid", "18"))
            .master_port != 0);
}

TEST_CASE("Ranks of mpirun on several hosts must be told where to meet") {
  Variables variables = changed(open_mpi(), "OMPI_COMM_WORLD_LOCAL_SIZE", "2");
  variables["OMPI_COMM_WORLD_LOCAL_RANK"] = "1";
  CHECK_THAT(message_of(variables), ContainsSubstring("export MASTER_ADDR"));
  variables["MASTER_ADDR"] = "gpu1";
  CHECK(worker_place(variables).master_addr == "gpu1");
  CHECK_THAT(message_of(without(open_mpi(), "PMIX_NAMESPACE")), ContainsSubstring("MASTER_PORT"));
}

TEST_CASE("PMI's ranks are known by PMI_RANK and MPI_LOCALRANKID") {
  const WorkerPlace place = worker_place({{"PMI_RANK", "3"},
                                          {"MPI_LOCALRANKID", "1"},
                                          {"MPI_LOCALNRANKS", "2"},
                                          {"PMI_SIZE", "4"},
                                          {"MASTER_ADDR", "gpu1"},
                                          {"MASTER_PORT", "4000"}});
  CHECK(place.launcher == "PMI");
  CHECK(place.rank == 3);
  CHECK(place.local_rank == 1);
  CHECK(place.local_world_size == 2);
  CHECK(place.world_size == 4);
}

TEST_CASE("The innermost launcher is believed") {
  Variables variables = slurm_task();
  variables.merge(open_mpi());
  CHECK(worker_place(variables).launcher == "Open MPI");
  variables.merge(torchrun());
  CHECK(worker_place(variables).launcher == "torchrun");
}

TEST_CASE("Incomplete launcher variables are refused with the missing one's name") {
  CHECK_THAT(message_of({{"RANK", "1"}}), ContainsSubstring("WORLD_SIZE is missing"));
  CHECK_THAT(message_of({{"WORLD_SIZE", "2"}}), ContainsSubstring("RANK is missing"));
  CHECK_THAT(message_of({{"WORLD_SIZE", "2"}, {"RANK", "0"}}), ContainsSubstring("LOCAL_RANK is missing"));
  CHECK_THAT(message_of({{"LOCAL_RANK", "0"}}), ContainsSubstring("WORLD_SIZE is missing"));
  CHECK_THAT(message_of(without(torchrun(), "MASTER_ADDR")), ContainsSubstring("export MASTER_ADDR"));
  CHECK_THAT(message_of(without(torchrun(), "MASTER_PORT")), ContainsSubstring("MASTER_PORT"));
}

TEST_CASE("A world of one needs no ranks and no master") {
  const WorkerPlace place = worker_place({{"WORLD_SIZE", "1"}});
  CHECK(place.rank == 0);
  CHECK(place.local_rank == 0);
  CHECK(place.master_addr.empty());
}

TEST_CASE("Launcher variables that are no numbers or contradict each other are refused") {
  const auto refusal = [](const std::string& name, const std::string& value) {
    return message_of(changed(torchrun(), name, value));
  };
  CHECK_THAT(refusal("RANK", "one"), ContainsSubstring("found 'one'"));
  CHECK_THAT(refusal("WORLD_SIZE", "-2"), ContainsSubstring("found '-2'"));
  CHECK_THAT(refusal("WORLD_SIZE", "2 "), ContainsSubstring("found '2 '"));
  CHECK_THAT(refusal("WORLD_SIZE", "5"), ContainsSubstring("RANK=5"));
  CHECK_THAT(refusal("WORLD_SIZE", "0"), ContainsSubstring("WORLD_SIZE=0"));
  CHECK_THAT(refusal("RANK", "99999999999999999999"), ContainsSubstring("RANK"));
  CHECK_THAT(refusal("LOCAL_WORLD_SIZE", "1"), ContainsSubstring("local rank is 1"));
  CHECK_THAT(refusal("LOCAL_WORLD_SIZE", "9"), ContainsSubstring("9 of 8"));
  CHECK_THAT(refusal("MASTER_PORT", "0"), ContainsSubstring("1 to 65535"));
  CHECK_THAT(refusal("MASTER_PORT", "70000"), ContainsSubstring("70000"));
}

TEST_CASE("The world is the configuration's, else the job's, else one process") {
  const WorkerPlace job = worker_place(torchrun());
  CHECK(world_size({}, WorkerPlace{}) == 1);
  CHECK(world_size(2, WorkerPlace{}) == 2);
  CHECK(world_size({}, job) == 8);
  CHECK(world_size(8, job) == 8);
  CHECK_THROWS_WITH(world_size(2, job),
                    ContainsSubstring("distributed.world_size is 2") && ContainsSubstring("WORLD_SIZE=8"));
}
