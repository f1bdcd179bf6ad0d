// Expected quartiles are those of numpy.percentile (its default, linear interpolation).
#include "bench/statistics.h"

#include "base/error.h"
#include "support/catch.h"

using ampctl::bench::summarise;

TEST_CASE("The median is the middle value, whatever the order, or the mean of the middle two") {
  CHECK(summarise({5.0, 1.0, 3.0}).median == 3.0);
  CHECK(summarise({4.0, 1.0, 2.0, 8.0}).median == 3.0);
  CHECK(summarise({7.0}).median == 7.0);
}

TEST_CASE("Spread is the range by the median; the interquartile range follows numpy's rule") {
  const auto summary = summarise({9.0, 10.0, 11.0, 12.0, 20.0});
  CHECK(summary.min == 9.0);
  CHECK(summary.max == 20.0);
  CHECK(summary.spread() == Approx(1.0));
  CHECK(summary.iqr == Approx(2.0));
  // numpy.percentile([1, 2, 4, 8], [25, 75]) is [1.75, 5.0]
  CHECK(summarise({1.0, 2.0, 4.0, 8.0}).iqr == Approx(3.25));
  CHECK(summarise({0.0, 0.0}).spread() == 0.0);
}

TEST_CASE("There is nothing to say about no measurements") { CHECK_THROWS_AS(summarise({}), ampctl::Error); }
