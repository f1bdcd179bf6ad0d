#include "data/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "catalog/datasets.h"
#include "data/random.h"

namespace ampctl::data {
namespace {

void shuffle(std::vector<int64_t>& values, Random& random) {
  for (size_t left = values.size(); left > 1; --left) {
    std::swap(values[left - 1], values[static_cast<size_t>(random.below(static_cast<int64_t>(left)))]);
  }
}

/// How many of each class go to evaluation, `total` together: every class its share rounded down, the rest
/// to the largest remainders (equal ones: the lower class first).
std::vector<int64_t> quotas(const std::vector<int64_t>& class_sizes, double fraction, int64_t total) {
  std::vector<int64_t> quota(class_sizes.size());
  std::vector<std::pair<double, size_t>> remainders;
  int64_t given = 0;
  for (size_t c = 0; c < class_sizes.size(); ++c) {
    const double share = static_cast<double>(class_sizes[c]) * fraction;
    quota[c] = static_cast<int64_t>(std::floor(share));
    given += quota[c];
    remainders.emplace_back(share - std::floor(share), c);
  }
  std::stable_sort(remainders.begin(), remainders.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (size_t i = 0; i < remainders.size() && given < total; ++i, ++given) ++quota[remainders[i].second];
  return quota;
}

}  // namespace

std::vector<int64_t> epoch_order(int64_t num_samples, int64_t seed, int64_t epoch, bool shuffled) {
  std::vector<int64_t> order(static_cast<size_t>(num_samples));
  std::iota(order.begin(), order.end(), int64_t{0});
  if (shuffled) {
    Random random(seed, Stream::order, epoch);
    shuffle(order, random);
  }
  return order;
}

SplitIndices split_indices(const std::vector<int64_t>& targets, double eval_fraction, int64_t seed,
                           bool stratified) {
  const auto num_samples = static_cast<int64_t>(targets.size());
  const int64_t total = catalog::split_eval_samples(num_samples, eval_fraction);
  const int64_t num_classes = stratified ? *std::max_element(targets.begin(), targets.end()) + 1 : 1;
  std::vector<std::vector<int64_t>> members(static_cast<size_t>(num_classes));
  for (int64_t i = 0; i < num_samples; ++i) {
    const int64_t target = stratified ? targets[static_cast<size_t>(i)] : 0;
    members[static_cast<size_t>(target)].push_back(i);
  }
  std::vector<int64_t> sizes;
  sizes.reserve(members.size());
  for (const auto& of_class : members) sizes.push_back(static_cast<int64_t>(of_class.size()));
  const std::vector<int64_t> quota = stratified ? quotas(sizes, eval_fraction, total) : std::vector{total};

  SplitIndices split;
  for (size_t c = 0; c < members.size(); ++c) {
    Random random(seed, Stream::split, static_cast<int64_t>(c));
    shuffle(members[c], random);
    const auto cut = members[c].begin() + quota[c];
    split.eval.insert(split.eval.end(), members[c].begin(), cut);
    split.train.insert(split.train.end(), cut, members[c].end());
  }
  std::sort(split.train.begin(), split.train.end());
  std::sort(split.eval.begin(), split.eval.end());
  return split;
}

}  // namespace ampctl::data
