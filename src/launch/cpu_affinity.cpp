#include "launch/cpu_affinity.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>

#include <sched.h>

namespace ampctl::launch {
namespace fs = std::filesystem;
namespace {

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<int> int_of(const std::string& text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  return failure == std::errc() && stop == end ? std::optional<int>(value) : std::nullopt;
}

CpuList common(const CpuList& a, const CpuList& b) {
  CpuList both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

// sysfs writes addresses in small letters and with four digits of domain; the driver's may have eight.
fs::path device_folder(const std::string& bus_id, const fs::path& root) {
  constexpr std::size_t kSysfsLength = std::string_view("0000:65:00.0").size();
  std::string name = bus_id;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (name.size() > kSysfsLength) name = name.substr(name.size() - kSysfsLength);
  return root / "sys/bus/pci/devices" / name;
}

RankCpus near_gpu(const VisibleGpu& gpu, const CpuList& allowed, const fs::path& root) {
  RankCpus place;
  if (gpu.bus_id.empty()) return place;
  const fs::path device = device_folder(gpu.bus_id, root);
  place.numa_node = int_of(first_line(device / "numa_node")).value_or(-1);
  place.cpus = common(parse_cpu_list(first_line(device / "local_cpulist")), allowed);
  return place;
}

// The hardware threads of each core, in the order of their first ones.
std::vector<CpuList> cores_of(const CpuList& cpus, const fs::path& root) {
  std::map<int, CpuList> cores;
  for (const int cpu : cpus) {
    const fs::path topology =
        root / "sys/devices/system/cpu" / ("cpu" + std::to_string(cpu)) / "topology/thread_siblings_list";
    const CpuList siblings = parse_cpu_list(first_line(topology));
    cores[siblings.empty() ? cpu : siblings.front()].push_back(cpu);
  }
  std::vector<CpuList> list;
  list.reserve(cores.size());
  for (auto& [first, threads] : cores) list.push_back(std::move(threads));
  return list;
}

void deal(const std::vector<CpuList>& cores, const std::vector<std::size_t>& ranks,
          std::vector<RankCpus>& places) {
  for (std::size_t share = 0; share < ranks.size(); ++share) {
    CpuList& cpus = places[ranks[share]].cpus;
    cpus.clear();
    if (cores.size() < ranks.size()) continue;
    const std::size_t end = cores.size() * (share + 1) / ranks.size();
    for (std::size_t core = cores.size() * share / ranks.size(); core < end; ++core) {
      cpus.insert(cpus.end(), cores[core].begin(), cores[core].end());
    }
    std::sort(cpus.begin(), cpus.end());
  }
}

}  // namespace

CpuList parse_cpu_list(const std::string& text) {
  CpuList cpus;
  std::istringstream list(text);
  for (std::string range; std::getline(list, range, ',');) {
    const auto dash = range.find('-');
    const auto first = int_of(range.substr(0, dash));
    const auto last = dash == std::string::npos ? first : int_of(range.substr(dash + 1));
    if (!first || !last || *first < 0 || *last >= CPU_SETSIZE) continue;
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
  }
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

std::string to_text(const CpuList& cpus) {
  std::string text;
  for (std::size_t first = 0; first < cpus.size();) {
    std::size_t last = first;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(cpus[first]);
    if (last > first) text += "-" + std::to_string(cpus[last]);
    first = last + 1;
  }
  return text;
}

CpuList allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  CpuList cpus;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

std::vector<RankCpus> place_ranks(const std::vector<VisibleGpu>& gpus, const CpuList& allowed,
                                  const fs::path& root) {
  std::vector<RankCpus> places;
  std::map<CpuList, std::vector<std::size_t>> sharing;
  for (const auto& gpu : gpus) {
    places.push_back(near_gpu(gpu, allowed, root));
    if (!places.back().cpus.empty()) sharing[places.back().cpus].push_back(places.size() - 1);
  }
  for (const auto& [cpus, ranks] : sharing) deal(cores_of(cpus, root), ranks, places);
  return places;
}

}  // namespace ampctl::launch
