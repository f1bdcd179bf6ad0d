// How `train` and `eval` become the worker, seen through a script in its place.
#include <csignal>

#include "e2e/programs.h"
#include "support/catch.h"
#include "support/matchers.h"

using namespace ampctl::test;
using ampctl::test::ContainsSubstring;

namespace {

// Prints its process id, arguments, and the configuration that it was handed.
constexpr const char* kEcho = "echo \"args: $*\"\ncat \"/dev/fd/$3\"";

struct Folder {
  TempDir dir;
  std::string experiment = (dir.path() / "small.yaml").string();
  Folder() { write_text(experiment, small_experiment()); }
};

}  // namespace

TEST_CASE("train hands the resolved configuration to the worker through a descriptor") {
  const Folder folder;
  const auto result =
      run_ampctl({"train", "-c", folder.experiment, "optimizer.lr=0.25"}, {fake_worker(folder.dir, kEcho)});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, ampctl::test::StartsWith("args: train --config-fd "));
  const auto shown = run_ampctl({"config", "show", "-c", folder.experiment, "optimizer.lr=0.25"});
  CHECK(result.out.substr(result.out.find('\n') + 1) == shown.out);
}

TEST_CASE("Exit code and signals are the worker's") {
  const Folder folder;
  CHECK(run_ampctl({"train", "-c", folder.experiment}, {fake_worker(folder.dir, "exit 75")}).exit_code == 75);
  CHECK(run_ampctl({"train", "-c", folder.experiment}, {fake_worker(folder.dir, "kill -HUP $$")}).exit_code ==
        129);
  const auto same = run({"sh", "-c", "echo $$; exec " + kAmpctl + " train -c " + folder.experiment},
                        {fake_worker(folder.dir, "echo $$")});
  const auto newline = same.out.find('\n');
  CHECK(same.out.substr(0, newline + 1) == same.out.substr(newline + 1));
}

TEST_CASE("Stop signals that come while the worker starts are kept for it") {
  const Folder folder;
  // The shell reads its own mask: it would clear it for a program that it starts.
  const auto worker = fake_worker(
      folder.dir, "while read -r key value; do [ $key = SigBlk: ] && echo $value; done < /proc/self/status");
  const auto result = run_ampctl({"train", "-c", folder.experiment}, {worker});
  const auto blocked = std::stoull(result.out, nullptr, 16);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) CHECK((blocked >> (signal - 1) & 1) == 1);
}

TEST_CASE("The worker is never started on a wrong configuration") {
  const Folder folder;
  const auto worker = fake_worker(folder.dir, "echo started");
  const auto result = run_ampctl({"train", "-c", folder.experiment, "optimizer.lr=-1"}, {worker});
  CHECK(result.exit_code == 2);
  CHECK(result.out.empty());
}

TEST_CASE("A missing worker is an environment error that says what to do") {
  const Folder folder;
  const auto result = run_ampctl({"train", "-c", folder.experiment}, {"AMPCTL_WORKER=/nowhere/worker"});
  CHECK(result.exit_code == 3);
  CHECK_THAT(result.err, ContainsSubstring("/nowhere/worker") && ContainsSubstring("AMPCTL_WORKER"));
}

TEST_CASE("Each launcher's task becomes the worker of its rank, with its variables untouched") {
  const Folder folder;
  const auto worker = fake_worker(folder.dir, "echo $1 of $LIST");
  const std::vector<std::vector<std::string>> environments{
      {"RANK=1", "LOCAL_RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=4000"},
      {"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=gpu1", "MASTER_PORT=4000"},
      {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_SIZE=4",
       "OMPI_COMM_WORLD_LOCAL_SIZE=4", "PMIX_NAMESPACE=1"},
      {"SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_NTASKS=2", "SLURM_STEP_ID=0", "SLURM_JOB_ID=7",
       "SLURM_STEP_TASKS_PER_NODE=2"},
  };
  for (auto env : environments) {
    env.insert(env.end(), {worker, "LIST=" + env.front()});
    const auto result = run_ampctl({"train", "-c", folder.experiment}, env);
    INFO(result.err);
    CHECK(result.out == "train of " + env.front() + "\n");
    // Evaluation is one process's work.
    CHECK(run_ampctl({"eval", "-c", folder.experiment}, env).exit_code == 2);
  }
}

TEST_CASE("Half a launcher's variables are refused; a batch script's shell and a world of one are alone") {
  const Folder folder;
  const auto worker = fake_worker(folder.dir, "echo started");
  const auto refused = run_ampctl({"train", "-c", folder.experiment}, {"WORLD_SIZE=2", worker});
  CHECK(refused.exit_code == 2);
  CHECK(refused.out.empty());
  CHECK(run_ampctl({"train", "-c", folder.experiment}, {"SLURM_PROCID=0", "SLURM_NTASKS=2", worker})
            .exit_code == 0);
  CHECK(run_ampctl({"train", "-c", folder.experiment}, {"RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=1", worker})
            .exit_code == 0);
}

TEST_CASE("One process evaluates what several trained, with their configuration") {
  const Folder folder;
  const auto result = run_ampctl({"eval", "-c", folder.experiment, "distributed.world_size=4"},
                                 {fake_worker(folder.dir, kEcho)});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, ContainsSubstring("world_size: 4\n"));
}

TEST_CASE("eval takes a run's folder, wherever it lies now, or an experiment file") {
  const Folder folder;
  const auto worker = fake_worker(folder.dir, kEcho);
  const auto moved = folder.dir.path() / "moved run";
  write_text(moved / "config.yaml", run_ampctl({"config", "show", "-c", folder.experiment}).out);

  auto result = run_ampctl({"eval", moved.string(), "eval.batch_size=50", "--json"}, {worker});
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, ampctl::test::StartsWith("args: eval --config-fd ") &&
                             ContainsSubstring("--checkpoint best --json"));
  CHECK_THAT(result.out, ContainsSubstring("output: " + moved.string()) ||
                             ContainsSubstring("output: \"" + moved.string()));
  CHECK_THAT(result.out, ContainsSubstring("batch_size: 50"));

  result = run_ampctl({"eval", "-c", folder.experiment, "--checkpoint", "latest"}, {worker});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out,
             ContainsSubstring("--checkpoint latest\n") && ContainsSubstring("output: runs/small"));

  result = run_ampctl({"eval", moved.string(), "-c", folder.experiment}, {worker});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, ContainsSubstring("name one of them"));
  CHECK(run_ampctl({"eval", folder.dir.path().string()}, {worker}).exit_code == 2);
}
