#include "catalog/datasets.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "catalog/image_folder.h"

namespace ampctl::catalog {
namespace {

constexpr size_t kImageRank = 3;
constexpr size_t kLabelRank = 1;

std::vector<std::string> numbered_classes(int64_t count) {
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

SourceListing list_idx(const Source& source, SourceRole role) {
  SourceListing listing;
  listing.idx = find_idx(source, role);
  const std::vector<int64_t> dims = read_idx_dims(listing.idx.images, kImageRank);
  const IdxArray labels = read_idx(listing.idx.labels, kLabelRank);
  if (labels.dims[0] != dims[0]) {
    throw environment_error("IDX files disagree: " + listing.idx.images.string() + " holds " +
                            std::to_string(dims[0]) + " images, " + listing.idx.labels.string() + " holds " +
                            std::to_string(labels.dims[0]) + " labels");
  }
  listing.targets.assign(labels.values.begin(), labels.values.end());
  const int64_t classes = *std::max_element(listing.targets.begin(), listing.targets.end()) + 1;
  listing.facts = {dims[0], classes, 1, dims[1], dims[2]};
  listing.class_names = numbered_classes(classes);
  return listing;
}

SourceListing list_image_folder(const Source& source) {
  if (!source.path)
    throw usage_error("data: format image_folder needs `path`, a folder with a folder a class");
  SourceListing listing;
  listing.root = *source.path;
  ImageFolder folder = scan_image_folder(listing.root);
  listing.class_names = std::move(folder.classes);
  listing.files = std::move(folder.files);
  listing.targets = std::move(folder.targets);
  constexpr int64_t kRgb = 3;
  listing.facts = {static_cast<int64_t>(listing.files.size()),
                   static_cast<int64_t>(listing.class_names.size()), kRgb, 0, 0};
  return listing;
}

SourceListing list_synthetic(const Source& source) {
  constexpr int64_t kMaxChannels = 4;
  if (source.num_samples < 1 || source.image_size < 1 || source.num_classes < 1 || source.channels < 1 ||
      source.channels > kMaxChannels) {
    throw usage_error(
        "data: format synthetic needs num_samples, image_size and num_classes of at least 1 and 1 to 4 "
        "channels");
  }
  SourceListing listing;
  listing.facts = {source.num_samples, source.num_classes, source.channels, source.image_size,
                   source.image_size};
  listing.class_names = numbered_classes(source.num_classes);
  return listing;
}

SourceListing list_source(const Source& source, SourceRole role) {
  SourceListing listing;
  if (source.format == "idx") {
    listing = list_idx(source, role);
  } else if (source.format == "image_folder") {
    listing = list_image_folder(source);
  } else if (source.format == "synthetic") {
    listing = list_synthetic(source);
  } else {
    throw usage_error("data: expected a format of idx, image_folder or synthetic, found `" + source.format +
                      "`");
  }
  listing.format = source.format;
  return listing;
}

/// Names in `left` that `right` lacks, for a message.
std::string only_in(const std::vector<std::string>& left, const std::vector<std::string>& right) {
  constexpr size_t kNamed = 5;
  std::string text;
  size_t missing = 0;
  for (const auto& name : left) {
    if (std::find(right.begin(), right.end(), name) != right.end()) continue;
    if (++missing <= kNamed) text += (missing == 1 ? "" : ", ") + name;
  }
  if (missing == 0) return "none";
  return missing <= kNamed ? text : text + " and " + std::to_string(missing - kNamed) + " more";
}

void check_same_classes(const SourceListing& train, SourceListing& eval) {
  // Numbered classes are only known by the largest label seen: an evaluation part may lack the last ones.
  const bool numbered = train.format != "image_folder" && eval.format != "image_folder";
  if (numbered && eval.facts.num_classes <= train.facts.num_classes) {
    eval.facts.num_classes = train.facts.num_classes;
    eval.class_names = train.class_names;
  }
  if (train.class_names != eval.class_names) {
    throw environment_error("training and evaluation data have different classes: only in training: " +
                            only_in(train.class_names, eval.class_names) +
                            "; only in evaluation: " + only_in(eval.class_names, train.class_names));
  }
  if (train.facts.channels != eval.facts.channels) {
    throw environment_error("training images have " + std::to_string(train.facts.channels) +
                            " channels, evaluation images " + std::to_string(eval.facts.channels));
  }
}

}  // namespace

const std::vector<std::string>& dataset_formats() {
  static const std::vector<std::string> names{"idx", "image_folder", "synthetic"};
  return names;
}

SourceListings list_sources(const Sources& sources) {
  const bool split = sources.eval_fraction.has_value();
  if (split && sources.eval &&
      (!sources.eval->format.empty() || sources.eval->path || sources.eval->images)) {
    throw usage_error(
        "data: `split.eval_fraction` takes the evaluation samples from `train`, so `eval` may only give "
        "transforms; remove eval's source or the split");
  }
  SourceListings listings;
  listings.train = list_source(sources.train, split ? SourceRole::train_eval : SourceRole::train);
  if (sources.eval && !split) {
    listings.eval = list_source(*sources.eval, SourceRole::eval);
    check_same_classes(listings.train, *listings.eval);
  }
  return listings;
}

int64_t split_eval_samples(int64_t num_samples, double eval_fraction) {
  const int64_t eval = std::llround(static_cast<double>(num_samples) * eval_fraction);
  if (eval < 1 || eval >= num_samples) {
    throw usage_error("data.split.eval_fraction: " + std::to_string(eval_fraction) + " of " +
                      std::to_string(num_samples) +
                      " samples leaves a part empty; expected a share between 0 and 1 that gives both at "
                      "least one sample");
  }
  return eval;
}

DataFacts count(const Sources& sources) {
  SourceListings listings = list_sources(sources);
  DataFacts facts{listings.train.facts, std::nullopt, std::move(listings.train.class_names)};
  if (listings.eval) facts.eval = listings.eval->facts;
  if (sources.eval_fraction) {
    facts.eval = facts.train;
    facts.eval->num_samples = split_eval_samples(facts.train.num_samples, *sources.eval_fraction);
    facts.train.num_samples -= facts.eval->num_samples;
  }
  return facts;
}

}  // namespace ampctl::catalog
