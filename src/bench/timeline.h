// Stretches of time, and how long any of them lasts.
#pragma once

#include <cstdint>
#include <vector>

namespace ampctl::bench {

/// From `begin` to `end`, nanoseconds of one clock.
struct Stretch {
  int64_t begin = 0;
  int64_t end = 0;
  bool operator==(const Stretch&) const = default;
};

/// How long at least one of them lasts, nanoseconds; overlaps count once.
[[nodiscard]] int64_t covered(std::vector<Stretch> stretches);

/// From the first begin to the last end, nanoseconds; 0 for none.
[[nodiscard]] int64_t extent(const std::vector<Stretch>& stretches);

/// For each stretch its length without the others inside it, nanoseconds: time of its own. Stretches of one
/// thread, where one lies wholly inside the other or beside it.
[[nodiscard]] std::vector<int64_t> own_times(const std::vector<Stretch>& stretches);

}  // namespace ampctl::bench
