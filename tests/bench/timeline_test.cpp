#include "bench/timeline.h"

#include "support/catch.h"

using ampctl::bench::covered;
using ampctl::bench::extent;
using ampctl::bench::own_times;

TEST_CASE("Overlapping stretches count once, gaps not at all") {
  CHECK(covered({{0, 10}, {5, 15}, {20, 30}}) == 25);
  CHECK(covered({{20, 30}, {0, 100}, {40, 50}}) == 100);
  CHECK(covered({{7, 7}}) == 0);
  CHECK(covered({}) == 0);
}

TEST_CASE("The extent reaches from the first begin to the last end") {
  CHECK(extent({{5, 15}, {0, 10}, {20, 30}, {21, 22}}) == 30);
  CHECK(extent({}) == 0);
}

TEST_CASE("Own time leaves out what runs inside, at every depth") {
  // An outer stretch with two inside, one of which holds a third; then one beside it.
  CHECK(own_times({{0, 100}, {10, 40}, {15, 25}, {50, 60}, {100, 110}}) ==
        std::vector<int64_t>{60, 20, 10, 10, 10});
  // Given from the inside out, and beginning together.
  CHECK(own_times({{0, 5}, {0, 20}}) == std::vector<int64_t>{5, 15});
}
