// What cannot work is refused in seconds: one message a cause, the right exit code, nothing left behind.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "e2e/distributed/jobs.h"
#include "support/catch.h"
#include "support/free_port.h"
#include "support/matchers.h"

namespace ampctl::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

size_t occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

// `cause` is said once, by whoever says it.
void check_refused(const std::vector<std::string>& command, int code, const std::string& cause,
                   const std::vector<std::string>& parts, const std::vector<std::string>& env = {},
                   std::chrono::seconds limit = 10s) {
  const auto start = Clock::now();
  const auto result = run(command, env, kRunLimit);
  INFO(result.out << result.err);
  CHECK(result.exit_code == code);
  CHECK(Clock::now() - start < limit);
  CHECK(occurrences(result.err, cause) == 1);
  for (const std::string& part : parts) CHECK_THAT(result.err, ContainsSubstring(part));
}

// A socket that somebody else listens at.
class UsedPort {
 public:
  UsedPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address_);
    REQUIRE(bind(fd_, reinterpret_cast<sockaddr*>(&address_), size) == 0);
    REQUIRE(listen(fd_, 1) == 0);
    REQUIRE(getsockname(fd_, reinterpret_cast<sockaddr*>(&address_), &size) == 0);
  }
  ~UsedPort() { close(fd_); }
  UsedPort(const UsedPort&) = delete;
  UsedPort& operator=(const UsedPort&) = delete;
  [[nodiscard]] std::string number() const { return std::to_string(ntohs(address_.sin_port)); }

 private:
  int fd_;
  sockaddr_in address_{};
};

// The variables of a rank that somebody else started.
std::vector<std::string> rank_of_two(int rank, uint16_t port) {
  return {"RANK=" + std::to_string(rank),
          "LOCAL_RANK=" + std::to_string(rank),
          "WORLD_SIZE=2",
          "LOCAL_WORLD_SIZE=2",
          "MASTER_ADDR=127.0.0.1",
          "MASTER_PORT=" + std::to_string(port)};
}

}  // namespace

TEST_CASE("More ranks than GPUs, wrong world sizes and elastic nodes are refused before anything starts") {
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  const auto command = [&](const std::vector<std::string>& overrides) {
    return workspace.command("run", overrides);
  };
  check_refused(ranks(command({"device=cuda", "data.global_batch_size=6400"}), 64), kEnvironment,
                "64 processes a node need as many GPUs", {"--nproc-per-node", "ampctl env"});
  check_refused(ranks(command({"distributed.world_size=4"}), 2), kUsage, "distributed.world_size is 4",
                {"leave distributed.world_size at auto"});
  check_refused(command({"distributed.world_size=4"}), kUsage, "distributed.world_size is 4",
                {"WORLD_SIZE=2", "leave distributed.world_size at auto"}, rank_of_two(0, free_port()));
  check_refused(ranks(command({}), 2), kUsage, "--nproc-per-node 2 starts processes", {"WORLD_SIZE=2"},
                rank_of_two(0, free_port()));
  check_refused(joined(command({}), {"--nnodes", "1:4"}), kUsage, "--nnodes 1:4: ", {"torchrun"});
  const std::string endpoint = "127.0.0.1:" + std::to_string(free_port());
  check_refused(
      joined(ranks(command({}), 1), {"--nnodes", "2", "--node-rank", "2", "--rdzv-endpoint", endpoint}),
      kUsage, "--node-rank 2 contradicts", {});
  check_refused(joined(ranks(command({}), 1), {"--nnodes", "2", "--node-rank", "0"}), kUsage,
                "needs --rdzv-endpoint", {});
  check_refused(joined(ranks(command({}), 1), {"--nnodes", "2", "--node-rank", "0", "--rdzv-endpoint",
                                               endpoint, "--max-restarts", "1"}),
                kUsage, "--max-restarts 1 contradicts", {"torchrun", "Slurm", "Kubernetes"});
  CHECK_FALSE(fs::exists(workspace.run_folder("run")));
}

TEST_CASE("ImageNet's recipe with more ranks than this machine has GPUs says so, in one message") {
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  check_refused({AMPCTL_PROGRAM, "train", "--config", source_dir() / "configs/resnet50.yaml",
                 "--nproc-per-node", "64", "--output", workspace.run_folder("run")},
                kEnvironment, "64 processes a node need as many GPUs", {});
}

TEST_CASE("A used port is refused with the way out") {
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  const UsedPort used;
  const std::string cause = "port " + used.number() + " on 127.0.0.1 is in use";
  const auto command = ranks(workspace.command("run"), 2);
  check_refused(joined(command, {"--master-port", used.number()}), kEnvironment, cause, {"--master-port"});
  check_refused(joined(command, {"--rdzv-endpoint", "127.0.0.1:" + used.number()}), kEnvironment, cause, {});
}

TEST_CASE("An unreachable master is refused with where it was looked for") {
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  const auto second_node = [&](const std::string& endpoint) {
    return joined(ranks(workspace.command("run", {"distributed.timeout=5"}), 1),
                  {"--nnodes", "2", "--node-rank", "1", "--rdzv-endpoint", endpoint});
  };
  const std::string cause = "nobody answers at the master's address ";
  check_refused(second_node("no-such-host.invalid:29500"), kEnvironment, cause + "no-such-host.invalid:29500",
                {"--rdzv-endpoint", "firewall"}, {}, 20s);
  const std::string nobody = "127.0.0.1:" + std::to_string(free_port());
  check_refused(second_node(nobody), kEnvironment, cause + nobody, {}, {}, 20s);
}

TEST_CASE("A rank that never comes is named") {
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  check_refused(workspace.command("run", {"distributed.timeout=5"}), kPeer, "only 1 of 2 ranks have come",
                {"missing: rank 1"}, rank_of_two(0, free_port()), 20s);
}

TEST_CASE("Data missing on one rank ends every rank, and is said once on a host") {
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  const uint16_t port = free_port();
  // Relative paths, found from one rank's working directory only.
  const std::vector<std::string> overrides{"data.train.images=data/images", "data.train.labels=data/labels",
                                           "data.eval.images=data/images", "data.eval.labels=data/labels"};
  const std::vector<std::string> in{"sh", "-c", R"(cd "$0" && exec "$@")"};
  const auto command = workspace.command("run", overrides);
  Job first(workspace, "run", joined(joined(in, {workspace.root()}), command), rank_of_two(0, port));
  Job second(workspace, "run", joined(joined(in, {"/"}), command), rank_of_two(1, port));
  const int code = first.exit_code(kEnd);
  const int other_code = second.exit_code(kEnd);
  INFO(first.output() << "\n----\n" << second.output());
  CHECK(code == kPeer);
  CHECK(other_code == kEnvironment);
  CHECK(occurrences(first.output() + second.output(), "data/images: does not exist") == 1);
  CHECK_FALSE(fs::exists(workspace.run_folder("run") / "metrics.jsonl"));
}

TEST_CASE("Configurations that differ by rank are reported by every rank before step 0") {
  const Workspace workspace(kJoinedMlp, images_of(193, 12));
  const uint16_t port = free_port();
  Job first(workspace, "run", workspace.command("run", {"seed=1", "optimizer.lr=0.1"}), rank_of_two(0, port));
  Job second(workspace, "run", workspace.command("run", {"seed=2", "optimizer.lr=0.2"}),
             rank_of_two(1, port));
  CHECK(first.exit_code(kEnd) == kUsage);
  CHECK(second.exit_code(kEnd) == kUsage);
  for (const Job* job : {&first, &second}) {
    INFO(job->output());
    for (const char* part : {"seed", "optimizer.lr", "0.1", "0.2", "rank 0", "rank 1"})
      CHECK_THAT(job->output(), ContainsSubstring(part));
  }
  CHECK(last_step(workspace.run_folder("run")) == 0);
}

}  // namespace ampctl::test
