#include "launch/launch_options.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"

namespace ampctl::launch {
namespace {

// torch.distributed's port where the endpoint names none.
constexpr uint16_t kDefaultPort = 29500;
constexpr int64_t kMostRanks = 1'000'000;

std::optional<int64_t> whole_number(const std::string& text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  return failure == std::errc() && stop == end ? std::optional<int64_t>(value) : std::nullopt;
}

int64_t number_between(const std::string& flag, const std::string& text, int64_t low, int64_t high) {
  const auto value = whole_number(text);
  if (!value || *value < low || *value > high) {
    throw usage_error(flag + ": expected a whole number from " + std::to_string(low) + " to " +
                      std::to_string(high) + ", found '" + text + "'");
  }
  return *value;
}

uint16_t port_number(const std::string& flag, const std::string& text) {
  return static_cast<uint16_t>(number_between(flag, text, 1, std::numeric_limits<uint16_t>::max()));
}

int64_t nodes_of(const std::string& text) {
  const auto colon = text.find(':');
  if (colon == std::string::npos) return number_between("--nnodes", text, 1, kMostRanks);
  const std::string least = text.substr(0, colon);
  const int64_t nodes = number_between("--nnodes", least, 1, kMostRanks);
  if (least == text.substr(colon + 1)) return nodes;
  throw usage_error(
      "--nnodes " + text +
      ": this launcher's worlds keep their size; for a world that grows and shrinks use torchrun "
      "--nnodes " +
      text + " --no-python ampctl train …, or give one number");
}

// HOST, HOST:PORT, [IPv6] or [IPv6]:PORT.
void set_endpoint(const std::string& text, LaunchPlan& plan) {
  const auto bracket = text.rfind(']');
  const auto colon = text.find(':', bracket == std::string::npos ? 0 : bracket);
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host.empty() || host.find_first_of(" /[]") != std::string::npos) {
    throw usage_error("--rdzv-endpoint: expected HOST or HOST:PORT, found '" + text + "'");
  }
  plan.master_addr = host;
  plan.master_port = kDefaultPort;
  if (colon != std::string::npos) plan.master_port = port_number("--rdzv-endpoint", text.substr(colon + 1));
}

void set_master(const LaunchOptions& options, LaunchPlan& plan) {
  if (options.rdzv_endpoint && (options.master_addr || options.master_port)) {
    throw usage_error("--rdzv-endpoint and --master-addr/--master-port say the same: give one of them");
  }
  if (options.rdzv_endpoint) set_endpoint(*options.rdzv_endpoint, plan);
  if (options.master_addr) {
    if (options.master_addr->empty()) throw usage_error("--master-addr: expected a host, found nothing");
    plan.master_addr = *options.master_addr;
    plan.master_port = kDefaultPort;
  }
  if (options.master_port) plan.master_port = port_number("--master-port", *options.master_port);
}

void check_nodes(const LaunchOptions& options, const LaunchPlan& plan) {
  const std::string nodes = "--nnodes " + std::to_string(plan.nodes);
  if (plan.node_rank >= plan.nodes) {
    throw usage_error("--node-rank " + std::to_string(plan.node_rank) + " contradicts " + nodes +
                      ": nodes are numbered from 0, so the last is " + std::to_string(plan.nodes - 1));
  }
  if (plan.nodes == 1) return;
  if (!options.node_rank) {
    throw usage_error(nodes + " needs --node-rank: 0 on the node that the others connect to, then 1, 2, …");
  }
  if (!options.rdzv_endpoint && !options.master_addr) {
    throw usage_error(nodes +
                      " needs --rdzv-endpoint HOST:PORT, the same on every node: node 0's address "
                      "and a free port there");
  }
  if (plan.max_restarts > 0) {
    throw usage_error("--max-restarts " + std::to_string(plan.max_restarts) + " contradicts " + nodes +
                      ": this launcher restarts the workers of one node only; on several use torchrun, "
                      "Slurm's requeue or Kubernetes' restart policy");
  }
}

void check_standalone(const LaunchOptions& options, const LaunchPlan& plan) {
  if (!options.standalone) return;
  std::string other;
  if (plan.nodes > 1) other = "--nnodes " + std::to_string(plan.nodes);
  if (options.rdzv_endpoint) other = "--rdzv-endpoint";
  if (options.master_addr) other = "--master-addr";
  if (options.master_port) other = "--master-port";
  if (!other.empty()) {
    throw usage_error("--standalone contradicts " + other +
                      ": it means one node and a port that the system chooses; leave one of them out");
  }
}

Error unreadable_streams(const std::string& flag, const std::string& value) {
  return usage_error(
      flag +
      ": expected 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or these by local rank such as "
      "0:3,1:2; found '" +
      value + "'");
}

// Nothing: not one of torchrun's numbers.
std::optional<Streams> streams_of(const std::string& text) {
  constexpr int64_t kOut = 1;
  constexpr int64_t kErr = 2;
  const auto bits = whole_number(text);
  if (!bits || *bits < 0 || *bits > (kOut | kErr)) return std::nullopt;
  return Streams{(*bits & kOut) != 0, (*bits & kErr) != 0};
}

}  // namespace

std::string LaunchOptions::first_given() const {
  const std::vector<std::pair<const char*, const std::optional<std::string>*>> flags{
      {"--nnodes", &nnodes},
      {"--nproc-per-node", &nproc_per_node},
      {"--node-rank", &node_rank},
      {"--rdzv-endpoint", &rdzv_endpoint},
      {"--rdzv-id", &rdzv_id},
      {"--master-addr", &master_addr},
      {"--master-port", &master_port},
      {"--max-restarts", &max_restarts},
      {"--log-dir", &log_dir},
      {"--redirects", &redirects},
      {"--tee", &tee}};
  for (const auto& [flag, value] : flags) {
    if (*value) return std::string(flag) + " " + **value;
  }
  return standalone ? "--standalone" : "";
}

StreamChoice::StreamChoice(const std::string& flag, const std::string& value) {
  if (value.find(':') == std::string::npos) {
    all_ = streams_of(value);
    if (!all_) throw unreadable_streams(flag, value);
    return;
  }
  for (std::size_t begin = 0; begin <= value.size();) {
    const auto end = std::min(value.find(',', begin), value.size());
    const std::string entry = value.substr(begin, end - begin);
    const auto colon = std::min(entry.find(':'), entry.size());
    const auto rank = whole_number(entry.substr(0, colon));
    const auto streams = streams_of(colon < entry.size() ? entry.substr(colon + 1) : "");
    if (!rank || *rank < 0 || !streams) throw unreadable_streams(flag, value);
    by_rank_[*rank] = *streams;
    begin = end + 1;
  }
}

std::optional<Streams> StreamChoice::of(int64_t local_rank) const {
  const auto entry = by_rank_.find(local_rank);
  return entry == by_rank_.end() ? all_ : std::optional<Streams>(entry->second);
}

LaunchPlan checked(const LaunchOptions& options) {
  LaunchPlan plan;
  if (options.nnodes) plan.nodes = nodes_of(*options.nnodes);
  if (options.node_rank) plan.node_rank = number_between("--node-rank", *options.node_rank, 0, kMostRanks);
  if (options.max_restarts) {
    plan.max_restarts = number_between("--max-restarts", *options.max_restarts, 0, kMostRanks);
  }
  if (const auto& text = options.nproc_per_node; text && *text == "gpu") {
    plan.per_node = PerNode::gpu;
  } else if (text && *text != "auto") {
    plan.per_node = PerNode::number;
    if (!whole_number(*text)) {
      throw usage_error("--nproc-per-node: expected auto, gpu or a number, found '" + *text + "'");
    }
    plan.ranks_per_node = number_between("--nproc-per-node", *text, 1, kMostRanks);
  }
  if (options.rdzv_id) {
    if (options.rdzv_id->empty()) throw usage_error("--rdzv-id: expected a name, found nothing");
    plan.run_id = *options.rdzv_id;
  }
  set_master(options, plan);
  check_nodes(options, plan);
  check_standalone(options, plan);
  plan.log_dir = options.log_dir;
  if (options.redirects) plan.redirects = StreamChoice("--redirects", *options.redirects);
  if (options.tee) plan.tee = StreamChoice("--tee", *options.tee);
  return plan;
}

}  // namespace ampctl::launch
