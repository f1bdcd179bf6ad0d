#include "dist/peer_process.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include <unistd.h>

#include "base/host_name.h"

namespace ampctl::dist {
namespace {

std::string own_pid_namespace() {
  std::error_code error;
  const auto link = std::filesystem::read_symlink("/proc/self/ns/pid", error);
  return error ? "unknown" : link.string();
}

}  // namespace

PeerProcess PeerProcess::self() { return {host_name(), ::getpid(), own_pid_namespace()}; }

std::string PeerProcess::to_line() const { return host + '\t' + std::to_string(pid) + '\t' + pid_namespace; }

PeerProcess PeerProcess::from_line(const std::string& line) {
  const size_t first = line.find('\t');
  const size_t second = line.find('\t', first + 1);
  if (first == std::string::npos || second == std::string::npos) {
    throw std::invalid_argument("not a process: '" + line + "'");
  }
  return {line.substr(0, first), std::stoll(line.substr(first + 1, second - first - 1)),
          line.substr(second + 1)};
}

ProcessState state_of(const PeerProcess& process) {
  const PeerProcess self = PeerProcess::self();
  if (process.host != self.host || process.pid_namespace != self.pid_namespace) return ProcessState::unknown;
  std::ifstream stat("/proc/" + std::to_string(process.pid) + "/stat");
  std::ostringstream text;
  text << stat.rdbuf();
  // "pid (name) state …"; the name may hold anything, also brackets.
  const std::string content = text.str();
  const size_t name_end = content.rfind(") ");
  if (name_end == std::string::npos) return ProcessState::gone;
  switch (content[name_end + 2]) {
    case 'Z':
    case 'X':
      return ProcessState::gone;
    case 'T':
    case 't':
      return ProcessState::stopped;
    default:
      return ProcessState::running;
  }
}

std::string describe(int64_t rank, const PeerProcess& process) {
  return "rank " + std::to_string(rank) + " (" + process.host + ", process " + std::to_string(process.pid) +
         ")";
}

}  // namespace ampctl::dist
