// Two hosts: network namespaces of this machine with a cable between them. Needs root.
#include <csignal>
#include <thread>

#include <unistd.h>

#include "e2e/distributed/jobs.h"
#include "support/catch.h"
#include "support/matchers.h"
#include "support/skip.h"

namespace ampctl::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr const char* kNoHosts = "network namespaces need root, ip (iproute2) and unshare";

class Hosts {
 public:
  Hosts() {
    works_ = sh("command -v unshare && ip netns add " + host(0) + " && ip netns add " + host(1)) &&
             sh("ip link add veth0 netns " + host(0) + " type veth peer name veth1 netns " + host(1));
    for (int i = 0; i < 2 && works_; ++i) {
      const std::string ip = "ip -n " + host(i);
      works_ = sh(ip + " link set lo up && " + ip + " addr add " + address(i) + "/24 dev " + veth(i) +
                  " && " + ip + " link set " + veth(i) + " up");
    }
  }
  ~Hosts() { sh("ip netns del " + host(0) + "; ip netns del " + host(1)); }
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  [[nodiscard]] bool works() const { return works_; }
  /// `command` on host i, which calls itself ampctl-host-i.
  [[nodiscard]] std::vector<std::string> on(int i, const std::vector<std::string>& command) const {
    return joined({"ip", "netns", "exec", host(i), "unshare", "--uts", "sh", "-c",
                   "hostname ampctl-host-" + std::to_string(i) + "; exec \"$@\"", "sh"},
                  command);
  }
  static std::string address(int i) { return "10.213.17." + std::to_string(i + 1); }
  [[nodiscard]] bool cut() const { return sh("ip -n " + host(0) + " link set veth0 down"); }

 private:
  static bool sh(const std::string& command) {
    return run({"sh", "-c", "{ " + command + "; } >/dev/null 2>&1"}).exit_code == 0;
  }
  [[nodiscard]] std::string host(int i) const { return name_ + std::to_string(i); }
  static std::string veth(int i) { return "veth" + std::to_string(i); }

  std::string name_ = "ampctl-" + std::to_string(getpid()) + "-";
  bool works_ = false;
};

std::vector<std::string> node(const Hosts& hosts, const Workspace& workspace, int i,
                              const std::vector<std::string>& overrides, int workers = 1) {
  return hosts.on(i, joined(ranks(workspace.command("run", overrides), workers),
                            {"--nnodes", "2", "--node-rank", std::to_string(i), "--rdzv-endpoint",
                             Hosts::address(0) + ":29500"}));
}

// `first` and `second` train together into the folder "run".
void check_equals_one_process(Job& first, Job& second, const Workspace& workspace) {
  const int code = first.exit_code();
  INFO(first.output() << second.output());
  CHECK(code == 0);
  REQUIRE(second.exit_code() == 0);
  REQUIRE(workspace.train("one").exit_code == 0);
  CHECK(weights_distance(latest(workspace.run_folder("run")), latest(workspace.run_folder("one"))) <
        kRounding);
}

}  // namespace

TEST_CASE("Two hosts with two workers each train as one process does") {
  const Hosts hosts;
  if (!hosts.works()) return skip(kNoHosts);
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  Job first(workspace, "run", node(hosts, workspace, 0, {}, 2));
  Job second(workspace, "run", node(hosts, workspace, 1, {}, 2));
  check_equals_one_process(first, second, workspace);
}

TEST_CASE("With PyTorchJob's variables and no flag each host's process is the worker of its rank") {
  const Hosts hosts;
  if (!hosts.works()) return skip(kNoHosts);
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  // Versions of the operator tell the master pod that the master is localhost; none gives a local rank.
  const auto variables = [](const std::string& rank, const std::string& master) {
    return std::vector<std::string>{"RANK=" + rank, "WORLD_SIZE=2", "MASTER_ADDR=" + master,
                                    "MASTER_PORT=23456"};
  };
  Job first(workspace, "run", hosts.on(0, workspace.command("run")), variables("0", "localhost"));
  Job second(workspace, "run", hosts.on(1, workspace.command("run")), variables("1", Hosts::address(0)));
  check_equals_one_process(first, second, workspace);
}

TEST_CASE("A cut cable ends both hosts within the timeout, each naming the other") {
  const Hosts hosts;
  if (!hosts.works()) return skip(kNoHosts);
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  const fs::path folder = workspace.run_folder("run");
  const std::vector<std::string> overrides{"train.steps=1000000", "distributed.timeout=8",
                                           "log.every_steps=5"};
  Job first(workspace, "run", node(hosts, workspace, 0, overrides));
  Job second(workspace, "run", node(hosts, workspace, 1, overrides));
  REQUIRE(eventually([&] { return last_step(folder) > 20; }, kRunLimit));
  const auto start = Clock::now();
  REQUIRE(hosts.cut());
  const int first_code = first.exit_code(60s);
  const int second_code = second.exit_code(60s);
  INFO(first.output() << "\n----\n" << second.output() << "\n----\n" << rank_logs(folder, 1));
  CHECK(first_code == kPeer);
  CHECK(second_code == kPeer);
  CHECK(Clock::now() - start < 8s + 15s);
  CHECK_THAT(first.output(), ContainsSubstring("rank 1"));
  CHECK_THAT(second.output() + rank_logs(folder, 1), ContainsSubstring("rank 0"));
  CHECK(first.all_gone());
  CHECK(second.all_gone());
  check_no_torn_checkpoint(folder);
}

TEST_CASE("SIGTERM on one host stops both after a checkpoint, with 75") {
  const Hosts hosts;
  if (!hosts.works()) return skip(kNoHosts);
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  const fs::path folder = workspace.run_folder("run");
  const std::vector<std::string> overrides{"train.steps=1000000", "log.every_steps=5"};
  Job first(workspace, "run", node(hosts, workspace, 0, overrides));
  Job second(workspace, "run", node(hosts, workspace, 1, overrides));
  REQUIRE(eventually([&] { return last_step(folder) > 20; }, kRunLimit));
  second.signal(SIGTERM);
  const int code = second.exit_code(kEnd);
  INFO(first.output() << second.output());
  CHECK(code == kPreempted);
  CHECK(first.exit_code(kEnd) == kPreempted);
  CHECK(first.all_gone());
  CHECK(second.all_gone());
}

TEST_CASE("A killed worker on one host ends the other host's workers too") {
  const Hosts hosts;
  if (!hosts.works()) return skip(kNoHosts);
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  const fs::path folder = workspace.run_folder("run");
  const std::vector<std::string> overrides{"train.steps=1000000", "distributed.timeout=20",
                                           "log.every_steps=5"};
  Job first(workspace, "run", node(hosts, workspace, 0, overrides));
  Job second(workspace, "run", node(hosts, workspace, 1, overrides));
  REQUIRE(eventually([&] { return last_step(folder) > 20; }, kRunLimit));
  second.signal_worker(1, SIGKILL);
  const int code = first.exit_code(15s);
  INFO(first.output() << second.output());
  CHECK(code == kPeer);
  CHECK(second.exit_code(15s) == kPeer);
  CHECK_THAT(second.output(), ContainsSubstring("signal 9 (Killed)"));
  CHECK_THAT(first.output(), ContainsSubstring("rank 1"));
  CHECK(first.all_gone());
  CHECK(second.all_gone());
}

TEST_CASE("Data missing on one host ends both, each naming the rank that misses it") {
  const Hosts hosts;
  if (!hosts.works()) return skip(kNoHosts);
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  const std::vector<std::string> overrides{"data.train.images=data/images", "data.train.labels=data/labels",
                                           "data.eval.images=data/images", "data.eval.labels=data/labels"};
  const auto in = [](const std::string& folder, const std::vector<std::string>& command) {
    return joined({"sh", "-c", R"(cd "$0" && exec "$@")", folder}, command);
  };
  Job first(workspace, "run", in(workspace.root(), node(hosts, workspace, 0, overrides)));
  Job second(workspace, "run", in("/", node(hosts, workspace, 1, overrides)));
  const int code = first.exit_code(kEnd);
  INFO(first.output() << "\n----\n" << second.output());
  CHECK(code == kPeer);
  CHECK(second.exit_code(kEnd) == kEnvironment);
  CHECK_THAT(second.output(), ContainsSubstring("data/images: does not exist"));
  CHECK_THAT(first.output(), ContainsSubstring("rank 1 on ampctl-host-1 could not start"));
  CHECK_THAT(first.output(), ContainsSubstring("data/images: does not exist"));
}

}  // namespace ampctl::test
