// What is said about repeated measurements.
#pragma once

#include <vector>

namespace ampctl::bench {

struct Summary {
  double median = 0.0;  ///< of an even number of values: the mean of the middle two
  double min = 0.0;
  double max = 0.0;
  double iqr = 0.0;  ///< third minus first quartile, interpolated linearly between values (numpy's rule)
  /// (max - min) / median; 0 where the median is 0.
  [[nodiscard]] double spread() const { return median == 0.0 ? 0.0 : (max - min) / median; }
};

/// Throws an internal error for no values.
[[nodiscard]] Summary summarise(std::vector<double> values);

}  // namespace ampctl::bench
