#include "launch/visible_gpus.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

namespace ampctl::launch {
namespace fs = std::filesystem;
namespace {

struct HostGpu {
  std::string bus_id;
  std::string uuid;
  std::string minor;
};

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::optional<std::size_t> index_of(const std::string& text) {
  std::size_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  return failure == std::errc() && stop == end ? std::optional<std::size_t>(value) : std::nullopt;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(folder, failure)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

HostGpu read_gpu(const fs::path& folder) {
  HostGpu gpu;
  gpu.bus_id = folder.filename().string();
  std::ifstream file(folder / "information");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = trimmed(line.substr(0, colon));
    if (key == "GPU UUID") gpu.uuid = trimmed(line.substr(colon + 1));
    if (key == "Device Minor") gpu.minor = trimmed(line.substr(colon + 1));
  }
  return gpu;
}

std::vector<std::string> device_minors(const fs::path& root) {
  const std::string prefix = "nvidia";
  std::vector<std::string> minors;
  for (const auto& name : names_in(root / "dev")) {
    if (name.rfind(prefix, 0) != 0) continue;
    const std::string minor = name.substr(prefix.size());
    if (index_of(minor)) minors.push_back(minor);
  }
  std::sort(minors.begin(), minors.end(),
            [](const std::string& a, const std::string& b) { return *index_of(a) < *index_of(b); });
  return minors;
}

// The driver's list names them all, also in a container that was given only some of the devices.
std::vector<HostGpu> host_gpus(const fs::path& root) {
  const auto minors = device_minors(root);
  const fs::path driver = root / "proc/driver/nvidia/gpus";
  std::vector<HostGpu> gpus;
  for (const auto& name : names_in(driver)) {
    HostGpu gpu = read_gpu(driver / name);
    const bool usable = minors.empty() || gpu.minor.empty() ||
                        std::find(minors.begin(), minors.end(), gpu.minor) != minors.end();
    if (usable) gpus.push_back(std::move(gpu));
  }
  if (gpus.empty()) {
    for (const auto& minor : minors) gpus.push_back({"", "", minor});
  }
  std::stable_sort(gpus.begin(), gpus.end(),
                   [](const HostGpu& a, const HostGpu& b) { return a.bus_id < b.bus_id; });
  return gpus;
}

// Nothing: it names no GPU of this host.
std::optional<VisibleGpu> named(const std::string& word, const std::vector<HostGpu>& gpus) {
  if (gpus.empty() || word.empty()) return std::nullopt;
  if (const auto index = index_of(word)) {
    if (*index >= gpus.size()) return std::nullopt;
    return VisibleGpu{gpus[*index].bus_id};
  }
  if (word.rfind("MIG-", 0) == 0) return VisibleGpu{};
  if (word.rfind("GPU-", 0) != 0) return std::nullopt;
  for (const auto& gpu : gpus) {
    if (gpu.uuid.rfind(word, 0) == 0) return VisibleGpu{gpu.bus_id};
  }
  const bool untold = std::all_of(gpus.begin(), gpus.end(), [](const HostGpu& g) { return g.uuid.empty(); });
  if (!untold) return std::nullopt;
  return VisibleGpu{};
}

}  // namespace

std::vector<VisibleGpu> visible_gpus(const Variables& variables, const fs::path& root) {
  const std::vector<HostGpu> gpus = host_gpus(root);
  std::vector<VisibleGpu> visible;
  const auto choice = variables.find("CUDA_VISIBLE_DEVICES");
  if (choice == variables.end()) {
    visible.reserve(gpus.size());
    for (const auto& gpu : gpus) visible.push_back({gpu.bus_id});
    return visible;
  }
  std::set<std::string> words;
  std::istringstream list(choice->second);
  for (std::string word; std::getline(list, word, ',');) {
    word = trimmed(word);
    const auto gpu = named(word, gpus);
    if (!gpu) break;
    if (!words.insert(word).second) return {};
    visible.push_back(*gpu);
  }
  return visible;
}

}  // namespace ampctl::launch
