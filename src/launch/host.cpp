#include "launch/host.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <sstream>

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace ampctl::launch {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t kKibibyte = 1024;

std::string read_file(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string trim(const std::string& text, const char* around = " \t\n\"") {
  const auto begin = text.find_first_not_of(around);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(around) - begin + 1);
}

// The value of the first line "key<separator>value".
std::string field(const std::string& text, const std::string& key, char separator) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find(separator);
    if (at != std::string::npos && trim(line.substr(0, at)) == key) return trim(line.substr(at + 1));
  }
  return "";
}

template <typename T>
std::optional<T> number(const std::string& text) {
  T value{};
  const std::string word = trim(text);
  const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), value);
  return failure == std::errc() && end != word.data() ? std::optional<T>(value) : std::nullopt;
}

std::optional<Space> space_of(const fs::path& folder) {
  std::error_code failure;
  const fs::space_info info = fs::space(folder, failure);
  if (failure) return std::nullopt;
  return Space{info.capacity, info.available};
}

// The process's folders in a control group hierarchy, from its own up to the root. `controller` is empty for
// version 2.
std::vector<fs::path> control_groups(const fs::path& root, const std::string& controller) {
  const fs::path mount = root / "sys/fs/cgroup" / controller;
  std::vector<fs::path> folders;
  std::istringstream lines(read_file(root / "proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {  // hierarchy:controllers:path
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string named = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controller.empty() ? named != ",," : named.find("," + controller + ",") == std::string::npos)
      continue;
    for (fs::path path = line.substr(second + 1); path.has_relative_path(); path = path.parent_path()) {
      folders.push_back(mount / path.relative_path());
    }
  }
  folders.push_back(mount);
  return folders;
}

template <typename T>
void lower(std::optional<T>& limit, const std::optional<T>& other) {
  if (other && (!limit || *other < *limit)) limit = other;
}

int64_t affinity_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
}

std::vector<std::string> cpu_precision(const std::string& cpuinfo) {
  std::istringstream flags(field(cpuinfo, "flags", ':'));
  std::vector<std::string> found;
  for (std::string flag; flags >> flag;) {
    for (const char* wanted : {"avx512_bf16", "avx512_fp16", "amx_bf16", "amx_fp16"}) {
      if (flag == wanted) found.push_back(flag);
    }
  }
  return found;
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul …": the first word made of numbers and
// dots.
std::optional<std::string> nvidia_driver(const fs::path& root) {
  std::istringstream words(read_file(root / "proc/driver/nvidia/version"));
  for (std::string word; words >> word;) {
    const bool version =
        word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos;
    if (version) return word;
  }
  return std::nullopt;
}

}  // namespace

std::optional<double> cpu_quota(const fs::path& root) {
  std::optional<double> quota;
  for (const auto& folder : control_groups(root, "")) {
    std::istringstream text(read_file(folder / "cpu.max"));  // "max 100000" or "150000 100000"
    std::string allowed;
    double period = 0.0;
    if (text >> allowed >> period && period > 0.0) {
      if (const auto time = number<int64_t>(allowed)) {
        lower(quota, std::optional<double>(static_cast<double>(*time) / period));
      }
    }
  }
  for (const auto& folder : control_groups(root, "cpu")) {
    const auto time = number<int64_t>(read_file(folder / "cpu.cfs_quota_us"));
    const auto period = number<int64_t>(read_file(folder / "cpu.cfs_period_us"));
    if (time && period && *time > 0 && *period > 0) {
      lower(quota, std::optional<double>(static_cast<double>(*time) / static_cast<double>(*period)));
    }
  }
  return quota;
}

std::optional<uint64_t> memory_limit(const fs::path& root) {
  // Version 1 writes "no limit" as the largest multiple of a page.
  constexpr uint64_t kNoLimit = uint64_t{1} << 60;
  std::optional<uint64_t> limit;
  for (const auto& folder : control_groups(root, "")) {
    lower(limit, number<uint64_t>(read_file(folder / "memory.max")));
  }
  for (const auto& folder : control_groups(root, "memory")) {
    lower(limit, number<uint64_t>(read_file(folder / "memory.limit_in_bytes")));
  }
  return limit && *limit < kNoLimit ? limit : std::nullopt;
}

Host read_host(const fs::path& folder, const fs::path& root) {
  Host host;
  host.os = field(read_file(root / "etc/os-release"), "PRETTY_NAME", '=');
  utsname names{};
  if (uname(&names) == 0) host.kernel = names.release;
  const std::string cpuinfo = read_file(root / "proc/cpuinfo");
  host.cpu_model = field(cpuinfo, "model name", ':');
  host.cpu_precision = cpu_precision(cpuinfo);
  host.cores = sysconf(_SC_NPROCESSORS_ONLN);
  host.usable_cores = affinity_cores();
  if (const auto quota = cpu_quota(root)) {
    host.usable_cores = std::min(host.usable_cores, std::max<int64_t>(1, std::llround(std::floor(*quota))));
  }
  const std::string meminfo = read_file(root / "proc/meminfo");
  host.memory_bytes = number<uint64_t>(field(meminfo, "MemTotal", ':')).value_or(0) * kKibibyte;
  host.available_memory_bytes = number<uint64_t>(field(meminfo, "MemAvailable", ':')).value_or(0) * kKibibyte;
  const auto limit = memory_limit(root);
  if (limit && *limit < host.memory_bytes) host.memory_limit_bytes = limit;
  host.shared_memory = space_of(root / "dev/shm");
  host.disk = space_of(folder);
  host.nvidia_driver = nvidia_driver(root);
  return host;
}

}  // namespace ampctl::launch
