#include "launch/launch_options.h"

#include "base/error.h"
#include "support/catch.h"
#include "support/matchers.h"

using ampctl::Error;
using ampctl::ErrorKind;
using ampctl::launch::checked;
using ampctl::launch::LaunchOptions;
using ampctl::launch::LaunchPlan;
using ampctl::launch::PerNode;
using ampctl::launch::StreamChoice;
using ampctl::test::ContainsSubstring;

namespace {

std::string refusal(const LaunchOptions& options) {
  try {
    static_cast<void>(checked(options));
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::usage);
    return error.what();
  }
  return "";
}

LaunchOptions two_nodes() {
  LaunchOptions options;
  options.nnodes = "2";
  options.node_rank = "1";
  options.rdzv_endpoint = "gpu1:4000";
  return options;
}

}  // namespace

TEST_CASE("Without flags it is one node, as many ranks as it has GPUs, and a port that the system chooses") {
  const LaunchPlan plan = checked({});
  CHECK(plan.nodes == 1);
  CHECK(plan.per_node == PerNode::automatic);
  CHECK(plan.master_addr == "127.0.0.1");
  CHECK_FALSE(plan.master_port);
  CHECK(plan.max_restarts == 0);
  CHECK(LaunchOptions{}.first_given().empty());
}

TEST_CASE("Processes of a node are a number, auto or gpu") {
  LaunchOptions options;
  options.nproc_per_node = "4";
  CHECK(checked(options).per_node == PerNode::number);
  CHECK(checked(options).ranks_per_node == 4);
  CHECK(options.first_given() == "--nproc-per-node 4");
  options.nproc_per_node = "gpu";
  CHECK(checked(options).per_node == PerNode::gpu);
  options.nproc_per_node = "auto";
  CHECK(checked(options).per_node == PerNode::automatic);
  for (const char* wrong : {"0", "-1", "two", "1.5", ""}) {
    CAPTURE(wrong);
    options.nproc_per_node = wrong;
    CHECK_THAT(refusal(options), ContainsSubstring("--nproc-per-node"));
  }
}

TEST_CASE("The endpoint is a host and a port, torch's own port where it names none") {
  LaunchPlan plan = checked(two_nodes());
  CHECK(plan.nodes == 2);
  CHECK(plan.node_rank == 1);
  CHECK(plan.master_addr == "gpu1");
  CHECK(plan.master_port == 4000);
  LaunchOptions options = two_nodes();
  options.rdzv_endpoint = "gpu1.cluster";
  CHECK(checked(options).master_port == 29500);
  options.rdzv_endpoint = "[fd00::1]:4001";
  plan = checked(options);
  CHECK(plan.master_addr == "fd00::1");
  CHECK(plan.master_port == 4001);
  for (const char* wrong : {"", ":4000", "gpu1:", "gpu1:0", "gpu1:65536", "gpu1:http", "gpu 1:4000"}) {
    CAPTURE(wrong);
    options.rdzv_endpoint = wrong;
    CHECK_THAT(refusal(options), ContainsSubstring("--rdzv-endpoint"));
  }
  options = two_nodes();
  options.rdzv_endpoint.reset();
  options.master_addr = "gpu2";
  CHECK(checked(options).master_port == 29500);
  options.master_port = "4002";
  CHECK(checked(options).master_port == 4002);
}

TEST_CASE("An elastic number of nodes is refused with a pointer to torchrun") {
  LaunchOptions options = two_nodes();
  options.nnodes = "1:4";
  CHECK_THAT(refusal(options), ContainsSubstring("torchrun --nnodes 1:4 --no-python ampctl train"));
  options.nnodes = "2:2";
  CHECK(checked(options).nodes == 2);
  options.nnodes = "none";
  CHECK_THAT(refusal(options), ContainsSubstring("--nnodes: expected a whole number"));
}

TEST_CASE("Several nodes need to know which this is and where they meet") {
  LaunchOptions options = two_nodes();
  options.node_rank.reset();
  CHECK_THAT(refusal(options), ContainsSubstring("needs --node-rank"));
  options = two_nodes();
  options.rdzv_endpoint.reset();
  CHECK_THAT(refusal(options), ContainsSubstring("needs --rdzv-endpoint HOST:PORT"));
  options.master_port = "4000";
  CHECK_THAT(refusal(options), ContainsSubstring("needs --rdzv-endpoint HOST:PORT"));
}

TEST_CASE("Flags that contradict each other are refused by name") {
  LaunchOptions options = two_nodes();
  options.node_rank = "2";
  CHECK_THAT(refusal(options), ContainsSubstring("--node-rank 2 contradicts --nnodes 2"));
  options = two_nodes();
  options.master_addr = "gpu1";
  CHECK_THAT(refusal(options), ContainsSubstring("give one of them"));
  options = two_nodes();
  options.max_restarts = "3";
  CHECK_THAT(refusal(options), ContainsSubstring("one node only"));
  options = two_nodes();
  options.standalone = true;
  CHECK_THAT(refusal(options), ContainsSubstring("--standalone contradicts"));
  options = {};
  options.standalone = true;
  options.master_port = "4000";
  CHECK_THAT(refusal(options), ContainsSubstring("--standalone contradicts --master-port"));
  options = {};
  options.node_rank = "1";
  CHECK_THAT(refusal(options), ContainsSubstring("--node-rank 1 contradicts --nnodes 1"));
  options = {};
  options.max_restarts = "-1";
  CHECK_THAT(refusal(options), ContainsSubstring("--max-restarts"));
  options = {};
  options.rdzv_id = "";
  CHECK_THAT(refusal(options), ContainsSubstring("--rdzv-id"));
}

TEST_CASE("Streams are torchrun's numbers, for all ranks or by local rank") {
  const StreamChoice all("--tee", "3");
  CHECK(all.of(5)->out);
  CHECK(all.of(5)->err);
  const StreamChoice some("--redirects", "0:1,2:2");
  CHECK(some.of(0)->out);
  CHECK_FALSE(some.of(0)->err);
  CHECK(some.of(2)->err);
  CHECK_FALSE(some.of(1));
  CHECK_FALSE(StreamChoice().given());
  for (const char* wrong : {"", "4", "-1", "0:", "0:4", ":1", "0:1,", "0:1;1:2", "x:1"}) {
    CAPTURE(wrong);
    CHECK_THROWS_WITH(StreamChoice("--tee", wrong), ContainsSubstring("--tee: expected"));
  }
}
