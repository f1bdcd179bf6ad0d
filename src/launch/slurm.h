// Slurm's compact notations.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ampctl::launch {

/// The first host of a node list such as "gpu[003-010,12],login1" ("gpu003"); numbers keep their zeros, and a
/// name may have several brackets ("rack[1-2]node[5-7]"). A list that cannot be read is a usage error.
[[nodiscard]] std::string first_host(const std::string& nodelist);

/// Tasks on the node of index `node` from a list such as "4(x2),3" (SLURM_STEP_TASKS_PER_NODE); nothing when
/// the list cannot be read or is shorter.
[[nodiscard]] std::optional<int64_t> tasks_on_node(const std::string& tasks_per_node, int64_t node);

}  // namespace ampctl::launch
