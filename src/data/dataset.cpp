#include "data/dataset.h"

#include <utility>

#include "catalog/datasets.h"
#include "data/idx_dataset.h"
#include "data/image_folder_dataset.h"
#include "data/sampler.h"
#include "data/subset.h"
#include "data/synthetic_dataset.h"

namespace ampctl::data {
namespace {

DatasetPtr open_source(catalog::SourceListing listing, int64_t seed) {
  if (listing.format == "idx") return std::make_shared<IdxDataset>(std::move(listing));
  if (listing.format == "image_folder") return std::make_shared<ImageFolderDataset>(std::move(listing));
  return std::make_shared<SyntheticDataset>(listing.facts, seed);
}

// Keeps the made-up samples of evaluation apart from training's.
constexpr int64_t kEvalSeedOffset = 1'000'003;

}  // namespace

std::unique_ptr<ImageReader> Dataset::open(int64_t index) const {
  return std::make_unique<DecodedImageReader>(get(index).image);
}

std::string Dataset::sample_name(int64_t index) const { return "sample " + std::to_string(index); }

TrainEval open_datasets(const config::DataConfig& config, int64_t seed) {
  catalog::SourceListings listings = catalog::list_sources(config::sources(config));
  TrainEval opened;
  opened.train = open_source(std::move(listings.train), seed);
  if (listings.eval) opened.eval = open_source(std::move(*listings.eval), seed + kEvalSeedOffset);
  if (config.split.eval_fraction) {
    const DatasetPtr whole = opened.train;
    SplitIndices split = split_indices(whole->targets(), *config.split.eval_fraction, config.split.seed,
                                       config.split.stratified);
    opened.train = std::make_shared<Subset>(whole, std::move(split.train));
    opened.eval = std::make_shared<Subset>(whole, std::move(split.eval));
  }
  return opened;
}

}  // namespace ampctl::data
