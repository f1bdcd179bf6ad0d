#include "data/sampler.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "support/catch.h"

using namespace ampctl;

TEST_CASE("An epoch's order is a permutation that depends on seed and epoch alone") {
  const auto order = data::epoch_order(1000, 42, 3, true);
  CHECK(order == data::epoch_order(1000, 42, 3, true));
  CHECK(order != data::epoch_order(1000, 42, 4, true));
  CHECK(order != data::epoch_order(1000, 43, 3, true));
  auto sorted = order;
  std::sort(sorted.begin(), sorted.end());
  const auto rising = data::epoch_order(1000, 42, 3, false);
  CHECK(sorted == rising);
  CHECK(rising.front() == 0);
  CHECK(rising.back() == 999);
}

TEST_CASE("Every sample is as likely at every place of the order") {
  constexpr int kSamples = 6;
  constexpr int kEpochs = 12000;
  std::map<std::pair<int64_t, size_t>, int> counts;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const auto order = data::epoch_order(kSamples, 1, epoch, true);
    for (size_t place = 0; place < order.size(); ++place) ++counts[{order[place], place}];
  }
  const double expected = double{kEpochs} / kSamples;
  double chi = 0.0;
  for (const auto& [key, count] : counts) chi += std::pow(count - expected, 2) / expected;
  // 25 degrees of freedom: 52.6 is exceeded once in a thousand.
  CHECK(counts.size() == kSamples * kSamples);
  CHECK(chi < 52.6);
}

TEST_CASE("A stratified split gives every class its share by largest remainders") {
  // Shares of a quarter: 2.5, 1.75, 0.25, 1.5; together 6. Rounded down 2, 1, 0, 1; the two left go to the
  // remainders .75 and .5 (the lower class of the two equal ones).
  std::vector<int64_t> targets;
  const std::map<int64_t, int> sizes{{0, 10}, {1, 7}, {2, 1}, {3, 6}};
  for (const auto& [target, size] : sizes) targets.insert(targets.end(), static_cast<size_t>(size), target);
  const auto split = data::split_indices(targets, 0.25, 5, true);
  std::map<int64_t, int> taken;
  for (const int64_t index : split.eval) ++taken[targets[static_cast<size_t>(index)]];
  CHECK(taken[0] == 3);
  CHECK(taken[1] == 2);
  CHECK(taken[2] == 0);
  CHECK(taken[3] == 1);
}

TEST_CASE("A split covers every sample once, in rising order, and follows its seed") {
  std::vector<int64_t> targets(1797);
  for (size_t i = 0; i < targets.size(); ++i) targets[i] = static_cast<int64_t>(i * 7919 % 10);
  for (const bool stratified : {true, false}) {
    const auto split = data::split_indices(targets, 0.25, 0, stratified);
    CHECK(split.eval.size() == 449);
    CHECK(std::is_sorted(split.train.begin(), split.train.end()));
    CHECK(std::is_sorted(split.eval.begin(), split.eval.end()));
    std::set<int64_t> all(split.train.begin(), split.train.end());
    all.insert(split.eval.begin(), split.eval.end());
    CHECK(all.size() == targets.size());
    CHECK(split.train.size() + split.eval.size() == targets.size());
    CHECK(split.eval == data::split_indices(targets, 0.25, 0, stratified).eval);
    CHECK(split.eval != data::split_indices(targets, 0.25, 1, stratified).eval);
  }
  CHECK_THROWS_AS(data::split_indices({0, 1}, 0.01, 0, true), Error);
}
