#include "base/process_age.h"

#include <fstream>
#include <sstream>
#include <string>

#include <unistd.h>

namespace ampctl {
namespace {

// proc(5): field 22 of /proc/PID/stat is the start in clock ticks after boot. Field 2, the program's name in
// parentheses, may hold spaces and parentheses itself.
constexpr int kFieldsFromStateToStart = 19;

std::optional<double> start_after_boot() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const auto name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  for (int i = 0; i < kFieldsFromStateToStart; ++i) fields >> skipped;
  double ticks = 0.0;
  if (!(fields >> ticks)) return std::nullopt;
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

std::optional<double> process_age() {
  const auto start = start_after_boot();
  std::ifstream file("/proc/uptime");
  double uptime = 0.0;
  if (!start || !(file >> uptime)) return std::nullopt;
  return uptime - *start;
}

}  // namespace ampctl
