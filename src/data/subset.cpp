#include "data/subset.h"

#include <utility>

namespace ampctl::data {

Subset::Subset(DatasetPtr whole, std::vector<int64_t> indices)
    : whole_(std::move(whole)), indices_(std::move(indices)) {
  targets_.reserve(indices_.size());
  for (const int64_t index : indices_) targets_.push_back(whole_->targets()[static_cast<size_t>(index)]);
}

config::DatasetFacts Subset::facts() const {
  config::DatasetFacts facts = whole_->facts();
  facts.num_samples = size();
  return facts;
}

}  // namespace ampctl::data
