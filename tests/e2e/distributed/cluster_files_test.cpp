// The ready files of configs/cluster: what they do with each exit code. slurm_one_node.sbatch runs in
// launchers_test.cpp.
#include <csignal>
#include <fstream>
#include <map>

#include <yaml-cpp/yaml.h>

#include "e2e/distributed/jobs.h"
#include "support/catch.h"
#include "support/matchers.h"
#include "support/skip.h"

namespace ampctl::test {
namespace {

using namespace std::chrono_literals;

fs::path cluster_file(const std::string& name) { return source_dir() / "configs/cluster" / name; }

// The PATH on which `ampctl` is a script with that body.
std::string path_with_ampctl(const TempDir& folder, const std::string& body) {
  const fs::path program = folder.path() / "ampctl";
  std::ofstream(program) << "#!/bin/sh\n" << body << "\n";
  fs::permissions(program, fs::perms::owner_all);
  return "PATH=" + folder.path().string() + ":" + getenv("PATH");
}

std::string pytorchjob_script() {
  const YAML::Node job = YAML::LoadFile(cluster_file("kubernetes_pytorchjob.yaml"));
  const YAML::Node pod = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"];
  return pod["containers"][0]["args"][0].as<std::string>();
}

// What Kubernetes does with a pod that ends with `code`: the first rule that matches, else it counts.
std::string action_for(const YAML::Node& rules, int code) {
  for (const auto& rule : rules) {
    const YAML::Node codes = rule["onExitCodes"];
    if (!codes || codes["operator"].as<std::string>() != "In") continue;
    for (const auto& value : codes["values"]) {
      if (value.as<int>() == code) return rule["action"].as<std::string>();
    }
  }
  return "Count";
}

}  // namespace

TEST_CASE("The Indexed Job fails on what would fail again, and does not count what was saved") {
  const auto documents = YAML::LoadAllFromFile(cluster_file("kubernetes_indexed_job.yaml"));
  REQUIRE(documents.size() == 2);
  const YAML::Node spec = documents[1]["spec"];
  const std::map<int, std::string> expected{{1, "FailJob"}, {2, "FailJob"}, {3, "Count"},  {4, "FailJob"},
                                            {5, "Count"},   {75, "Ignore"}, {137, "Count"}};
  for (const auto& [code, action] : expected) {
    INFO("exit code " << code);
    CHECK(action_for(spec["podFailurePolicy"]["rules"], code) == action);
  }
  CHECK(spec["template"]["spec"]["restartPolicy"].as<std::string>() == "Never");
  const int pods = spec["completions"].as<int>();
  CHECK(spec["parallelism"].as<int>() == pods);
  CHECK(spec["backoffLimit"].as<int>() % pods == 0);
  // The name that pod 0 has by the service.
  const auto service = documents[0]["metadata"]["name"].as<std::string>();
  CHECK(spec["template"]["spec"]["subdomain"].as<std::string>() == service);
  CHECK_THAT(
      spec["template"]["spec"]["containers"][0]["args"][0].as<std::string>(),
      ContainsSubstring(documents[1]["metadata"]["name"].as<std::string>() + "-0." + service + ":29500"));
}

TEST_CASE("In a PyTorchJob 5 and 75 become codes that the operator restarts, and others stay") {
  const std::map<int, int> expected{{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 133}, {75, 203}, {137, 137}};
  for (const auto& [code, seen] : expected) {
    const TempDir folder;
    const std::string path = path_with_ampctl(folder, "exit " + std::to_string(code));
    CHECK(run({"sh", "-c", pytorchjob_script()}, {path}, 10s).exit_code == seen);
  }
}

TEST_CASE("In a PyTorchJob SIGTERM reaches the worker, whose save is waited for") {
  const Workspace workspace(kJoinedMlp);
  const TempDir folder;
  const std::string path = path_with_ampctl(
      folder, "trap 'sleep 1; echo saved; exit 75' TERM; echo started; while :; do sleep 0.1; done");
  Job job(workspace, "pod", {"sh", "-c", pytorchjob_script()}, {path});
  REQUIRE(eventually([&] { return job.output().find("started") != std::string::npos; }, 10s));
  job.signal(SIGTERM);
  CHECK(job.exit_code(10s) == 203);
  CHECK_THAT(job.output(), ContainsSubstring("saved"));
}

TEST_CASE("torchrun.sh trains two ranks") {
  const fs::path bin = fs::path(python()).parent_path();
  if (!fs::exists(bin / "torchrun")) {
    return skip("there is no torchrun; scripts/test.sh installs it with torch");
  }
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  const std::string path =
      "PATH=" + fs::path(AMPCTL_PROGRAM).parent_path().string() + ":" + bin.string() + ":" + getenv("PATH");
  Job job(workspace, "run", {cluster_file("torchrun.sh"), "--output", workspace.run_folder("run")},
          {path, "GPUS=2", "CONFIG=" + workspace.config().string()});
  const int code = job.exit_code();
  INFO(job.output());
  REQUIRE(code == 0);
  CHECK(fs::exists(latest(workspace.run_folder("run")) / "rank-00001.safetensors"));
}

}  // namespace ampctl::test
