#include "data/idx_dataset.h"

#include <utility>

namespace ampctl::data {
namespace {

constexpr size_t kImageRank = 3;

}  // namespace

IdxDataset::IdxDataset(catalog::SourceListing listing)
    : listing_(std::move(listing)), pixels_(catalog::read_idx(listing_.idx.images, kImageRank).values) {}

Sample IdxDataset::get(int64_t index) const {
  const config::DatasetFacts& facts = listing_.facts;
  const auto begin = pixels_.begin() + index * facts.height * facts.width;
  Image image{facts.height, facts.width, facts.channels, {begin, begin + facts.height * facts.width}};
  return {std::move(image), listing_.targets[static_cast<size_t>(index)]};
}

}  // namespace ampctl::data
