#include "bench/timeline.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace ampctl::bench {

int64_t covered(std::vector<Stretch> stretches) {
  std::sort(stretches.begin(), stretches.end(),
            [](const Stretch& a, const Stretch& b) { return a.begin < b.begin; });
  int64_t total = 0;
  int64_t until = stretches.empty() ? 0 : stretches.front().begin;
  for (const Stretch& stretch : stretches) {
    total += std::max<int64_t>(0, stretch.end - std::max(stretch.begin, until));
    until = std::max(until, stretch.end);
  }
  return total;
}

int64_t extent(const std::vector<Stretch>& stretches) {
  if (stretches.empty()) return 0;
  int64_t begin = stretches.front().begin;
  int64_t end = stretches.front().end;
  for (const Stretch& stretch : stretches) {
    begin = std::min(begin, stretch.begin);
    end = std::max(end, stretch.end);
  }
  return end - begin;
}

std::vector<int64_t> own_times(const std::vector<Stretch>& stretches) {
  std::vector<std::size_t> order(stretches.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // Outer ones first where two begin together.
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (stretches[a].begin != stretches[b].begin) return stretches[a].begin < stretches[b].begin;
    return stretches[a].end > stretches[b].end;
  });
  std::vector<int64_t> own(stretches.size());
  std::vector<std::size_t> open;
  for (const std::size_t index : order) {
    const Stretch& stretch = stretches[index];
    while (!open.empty() && stretches[open.back()].end <= stretch.begin) open.pop_back();
    own[index] = stretch.end - stretch.begin;
    if (!open.empty()) own[open.back()] -= own[index];
    open.push_back(index);
  }
  return own;
}

}  // namespace ampctl::bench
