#include "bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/error.h"

namespace ampctl::bench {
namespace {

constexpr double kFirstQuartile = 0.25;
constexpr double kMedian = 0.5;
constexpr double kThirdQuartile = 0.75;

double quantile(const std::vector<double>& sorted, double share) {
  const double position = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(position));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - std::floor(position)) * (sorted[above] - sorted[below]);
}

}  // namespace

Summary summarise(std::vector<double> values) {
  if (values.empty()) throw Error(ErrorKind::internal, "there are no measurements to summarise");
  std::sort(values.begin(), values.end());
  return {quantile(values, kMedian), values.front(), values.back(),
          quantile(values, kThirdQuartile) - quantile(values, kFirstQuartile)};
}

}  // namespace ampctl::bench
