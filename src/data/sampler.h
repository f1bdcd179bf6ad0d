// The order of samples: a pure function of (seed, epoch, position), the same for any number of threads or
// ranks.
#pragma once

#include <cstdint>
#include <vector>

namespace ampctl::data {

/// The indices of one epoch in training order: a Fisher-Yates shuffle driven by (seed, epoch), or 0..n-1.
std::vector<int64_t> epoch_order(int64_t num_samples, int64_t seed, int64_t epoch, bool shuffled);

/// Indices of the two parts of a split, each rising. Stratified: every class gives the same share, rounded by
/// the largest-remainder rule; pure function of (targets, fraction, seed).
struct SplitIndices {
  std::vector<int64_t> train;
  std::vector<int64_t> eval;
};
SplitIndices split_indices(const std::vector<int64_t>& targets, double eval_fraction, int64_t seed,
                           bool stratified);

}  // namespace ampctl::data
