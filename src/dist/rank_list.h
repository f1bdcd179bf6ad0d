// Ranks in a sentence.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ampctl::dist {

/// "rank 3", "ranks 0-2, 5", from ascending ranks.
[[nodiscard]] std::string rank_list(const std::vector<int64_t>& ranks);

}  // namespace ampctl::dist
