// The launchers that people have: each trains two ranks to what one process trains on the joined batch.
#include <csignal>

#include "e2e/distributed/jobs.h"
#include "support/catch.h"
#include "support/matchers.h"
#include "support/skip.h"

namespace ampctl::test {
namespace {

using namespace std::chrono_literals;

constexpr int kUnable = 77;  // with_slurm.sh: no Slurm can be started here

fs::path torchrun() { return fs::path(python()).parent_path() / "torchrun"; }
std::string with_slurm() { return source_dir() / "tests/e2e/distributed/with_slurm.sh"; }

bool on_path(const std::string& program) {
  return run({"sh", "-c", "command -v " + program + " >/dev/null"}).exit_code == 0;
}

std::vector<std::string> mpirun() {
  return {"mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", "2"};
}

void check_trained_as_one(const Workspace& workspace, const std::string& name) {
  REQUIRE(workspace.train("one").exit_code == 0);
  CHECK(weights_distance(latest(workspace.run_folder(name)), latest(workspace.run_folder("one"))) <
        kRounding);
  CHECK(fs::exists(latest(workspace.run_folder(name)) / "rank-00001.safetensors"));
}

}  // namespace

TEST_CASE("Under torchrun ampctl train is the worker of its rank") {
  if (!fs::exists(torchrun())) return skip("there is no torchrun; scripts/test.sh installs it with torch");
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  Job job(workspace, "torchrun",
          joined({torchrun(), "--no-python", "--standalone", "--nproc-per-node", "2"},
                 workspace.command("torchrun")));
  const int code = job.exit_code();
  INFO(job.output());
  REQUIRE(code == 0);
  check_trained_as_one(workspace, "torchrun");
}

TEST_CASE("torchrun reports the message of the rank that failed, and hands on requests to stop") {
  if (!fs::exists(torchrun())) return skip("there is no torchrun; scripts/test.sh installs it with torch");
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  const std::vector<std::string> launch{torchrun(), "--no-python", "--standalone", "--nproc-per-node", "2"};

  Job failing(workspace, "failing",
              joined(launch, workspace.command("failing", {"data.train.images=/nowhere/images"})));
  CHECK(failing.exit_code() == 1);
  CHECK_THAT(failing.output(), ContainsSubstring("/nowhere/images"));
  CHECK_THAT(failing.output(), ContainsSubstring("exitcode  : 3"));
  CHECK(failing.all_gone());

  Job stopped(workspace, "stopped", joined(launch, workspace.command("stopped", {"train.steps=1000000"})));
  REQUIRE(eventually([&] { return last_step(workspace.run_folder("stopped")) > 3; }, kRunLimit));
  stopped.signal(SIGTERM);
  CHECK(stopped.exit_code(kEnd) == 1);
  CHECK(stopped.all_gone());
  CHECK(state(latest(workspace.run_folder("stopped"))).at("progress").at("windows") ==
        last_step(workspace.run_folder("stopped")));
}

TEST_CASE("Under mpirun ampctl train is the worker of its rank") {
  if (!on_path("mpirun")) return skip("there is no mpirun (apt-get install openmpi-bin)");
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  Job job(workspace, "mpirun", joined(mpirun(), workspace.command("mpirun")));
  const int code = job.exit_code();
  INFO(job.output());
  REQUIRE(code == 0);
  check_trained_as_one(workspace, "mpirun");
}

TEST_CASE("mpirun hands SIGUSR1 on: all ranks save, 75, and the same command goes on") {
  if (!on_path("mpirun")) return skip("there is no mpirun (apt-get install openmpi-bin)");
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  const std::vector<std::string> overrides{"train.steps=400", "log.every_steps=5"};
  const fs::path folder = workspace.run_folder("run");
  Job job(workspace, "run", joined(mpirun(), workspace.command("run", overrides)));
  REQUIRE(eventually([&] { return last_step(folder) > 10; }, kRunLimit));
  job.signal(SIGUSR1);
  const int code = job.exit_code(kEnd);
  INFO(job.output());
  REQUIRE(code == kPreempted);
  CHECK(job.all_gone());
  CHECK(state(latest(folder)).at("progress").at("windows") == last_step(folder));
  Job again(workspace, "run", joined(mpirun(), workspace.command("run", overrides)));
  CHECK(again.exit_code() == 0);
  REQUIRE(run(ranks(workspace.command("whole", overrides), 2), {}, kRunLimit).exit_code == 0);
  CHECK(checkpoint_difference(latest(folder), latest(workspace.run_folder("whole"))).empty());
}

TEST_CASE("Under srun ampctl train is the worker of its task") {
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  Job job(workspace, "srun", joined({with_slurm(), "srun", "--ntasks=2"}, workspace.command("srun")));
  const int code = job.exit_code();
  INFO(job.output());
  if (code == kUnable) return skip(job.output());
  REQUIRE(code == 0);
  check_trained_as_one(workspace, "srun");
}

TEST_CASE("The sbatch file requeues a job that SIGUSR1 stopped, and it goes on to the same result") {
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  const std::vector<std::string> overrides{"train.steps=800", "log.every_steps=5"};
  const fs::path scripts = source_dir() / "tests/e2e/distributed";
  const std::string path = fs::path(AMPCTL_PROGRAM).parent_path().string() + ":" + getenv("PATH");
  // In the workspace, where Slurm writes the job's log.
  Job job(
      workspace, "run",
      joined({"sh", "-c", R"(cd "$0" && exec "$@")", workspace.root(), with_slurm(), scripts / "requeue.sh",
              source_dir() / "configs/cluster/slurm_one_node.sbatch", workspace.run_folder("run")},
             overrides),
      {"PATH=" + path, "CONFIG=" + workspace.config().string()});
  const int code = job.exit_code();
  INFO(job.output());
  if (code == kUnable) return skip(job.output());
  REQUIRE(code == 0);
  CHECK_THAT(job.output(), ContainsSubstring("received SIGUSR1"));
  CHECK_THAT(job.output(), ContainsSubstring("stopped after a checkpoint: requeueing job"));
  CHECK_THAT(job.output(), ContainsSubstring("JobState=COMPLETED"));
  CHECK_THAT(job.output(), ContainsSubstring("Restarts=1"));

  const auto whole = run(ranks(workspace.command("whole", overrides), 2), {}, kRunLimit);
  REQUIRE(whole.exit_code == 0);
  CHECK(checkpoint_difference(latest(workspace.run_folder("run")), latest(workspace.run_folder("whole")))
            .empty());
}

}  // namespace ampctl::test
