#include "launch/slurm.h"

#include <charconv>

#include "base/error.h"

namespace ampctl::launch {
namespace {

Error unreadable(const std::string& nodelist) {
  return usage_error("cannot read Slurm's node list '" + nodelist +
                     "': expected names such as gpu[003-010,12]; export MASTER_ADDR with the host of rank 0");
}

bool read_number(const std::string& text, std::size_t& position, int64_t& value) {
  const char* begin = text.data() + position;
  const auto [stop, failure] = std::from_chars(begin, text.data() + text.size(), value);
  if (failure != std::errc() || value < 1) return false;
  position += static_cast<std::size_t>(stop - begin);
  return true;
}

bool skip(const std::string& text, std::size_t& position, const std::string& expected) {
  if (text.compare(position, expected.size(), expected) != 0) return false;
  position += expected.size();
  return true;
}

}  // namespace

std::string first_host(const std::string& nodelist) {
  std::string host;
  for (std::size_t at = 0; at < nodelist.size() && nodelist[at] != ',';) {
    if (nodelist[at] == ']') throw unreadable(nodelist);
    if (nodelist[at] != '[') {
      host += nodelist[at++];
      continue;
    }
    const auto close = nodelist.find(']', at);
    const auto end = nodelist.find_first_of(",-]", at);
    if (close == std::string::npos || end == at + 1) throw unreadable(nodelist);
    host += nodelist.substr(at + 1, end - at - 1);
    at = close + 1;
  }
  if (host.empty() || host.find_first_of("[] \t") != std::string::npos) throw unreadable(nodelist);
  return host;
}

std::optional<int64_t> tasks_on_node(const std::string& tasks_per_node, int64_t node) {
  for (std::size_t at = 0; at < tasks_per_node.size();) {
    int64_t tasks = 0;
    int64_t nodes = 1;
    if (!read_number(tasks_per_node, at, tasks)) return std::nullopt;
    if (skip(tasks_per_node, at, "(x")) {
      if (!read_number(tasks_per_node, at, nodes) || !skip(tasks_per_node, at, ")")) return std::nullopt;
    }
    if (node < nodes) return tasks;
    node -= nodes;
    if (at < tasks_per_node.size() && !skip(tasks_per_node, at, ",")) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace ampctl::launch
