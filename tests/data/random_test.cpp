#include "data/random.h"

#include <array>
#include <cmath>

#include "support/catch.h"

using ampctl::data::Random;
using ampctl::data::Stream;

TEST_CASE("The generator is the published SplitMix64") {
  // Vigna's splitmix64.c started at 1234567.
  Random random(uint64_t{1234567});
  CHECK(random.next() == 6457827717110365317U);
  CHECK(random.next() == 3203168211198807973U);
  CHECK(random.next() == 9817491932198370423U);
  CHECK(random.next() == 4593380528125082431U);
  CHECK(random.next() == 16408922859458223821U);
}

TEST_CASE("Streams that differ in any key differ, and equal keys repeat") {
  const uint64_t reference = Random(5, Stream::order, 6, 7).next();
  CHECK(Random(5, Stream::order, 6, 7).next() == reference);
  CHECK(Random(4, Stream::order, 6, 7).next() != reference);
  CHECK(Random(5, Stream::split, 6, 7).next() != reference);
  CHECK(Random(5, Stream::order, 7, 6).next() != reference);
  CHECK(Random(5, Stream::order, 6, 8).next() != reference);
  CHECK(Random(-5, Stream::order, 6, 7).next() != reference);
}

TEST_CASE("Numbers below a bound and in an interval are uniform") {
  // Chi-square with 9 degrees of freedom: 27.9 is exceeded once in a thousand.
  constexpr double kLimit = 27.9;
  constexpr int kDraws = 100000;
  constexpr int kCells = 10;
  std::array<int, kCells> below{};
  std::array<int, kCells> unit{};
  // First numbers of many streams, as each sample's augmentation draws them.
  for (int i = 0; i < kDraws; ++i) {
    Random random(42, Stream::augmentation, 3, i);
    ++below[static_cast<size_t>(random.below(kCells))];
    const double value = random.uniform();
    REQUIRE(value >= 0.0);
    REQUIRE(value < 1.0);
    ++unit[static_cast<size_t>(value * kCells)];
  }
  const double expected = double{kDraws} / kCells;
  double chi_below = 0.0;
  double chi_unit = 0.0;
  for (size_t c = 0; c < kCells; ++c) {
    chi_below += std::pow(below[c] - expected, 2) / expected;
    chi_unit += std::pow(unit[c] - expected, 2) / expected;
  }
  CHECK(chi_below < kLimit);
  CHECK(chi_unit < kLimit);
}
