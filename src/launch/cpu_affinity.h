// Which CPUs each rank of a node gets: those near its GPU, shared out among the ranks that are near the same.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launch/visible_gpus.h"

namespace ampctl::launch {

/// Numbers of logical CPUs, ascending.
using CpuList = std::vector<int>;

/// The kernel's notation, "0-3,8"; what cannot be read is left out.
[[nodiscard]] CpuList parse_cpu_list(const std::string& text);
/// The same notation.
[[nodiscard]] std::string to_text(const CpuList& cpus);

/// The CPUs that this process may run on.
[[nodiscard]] CpuList allowed_cpus();

/// Where one rank runs.
struct RankCpus {
  int numa_node = -1;  ///< -1: the host does not tell
  CpuList cpus;        ///< empty: wherever the system puts it
};

/// One entry a GPU, in the order of `gpus`. The CPUs near a GPU are its PCI device's `local_cpulist`, as far
/// as `allowed`; whole cores (all their hardware threads) are dealt to the ranks that share them. No CPUs for
/// a rank whose GPU's place is unknown, or where there are fewer cores than ranks. `root` stands in for "/".
[[nodiscard]] std::vector<RankCpus> place_ranks(const std::vector<VisibleGpu>& gpus, const CpuList& allowed,
                                                const std::filesystem::path& root = "/");

}  // namespace ampctl::launch
