// Data set formats: what a source holds, found out without decoding an image. The front end plans with it
// and the worker's data sets open the same listing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "catalog/idx.h"
#include "catalog/source.h"

namespace ampctl::catalog {

/// Names accepted by data.train.format and data.eval.format.
const std::vector<std::string>& dataset_formats();

/// One source, listed and not decoded.
struct SourceListing {
  std::string format;
  DatasetFacts facts;
  std::vector<std::string> class_names;  ///< image_folder: folder names; otherwise "0", "1", …
  std::vector<int64_t> targets;          ///< class of each sample; empty for synthetic
  std::filesystem::path root;            ///< image_folder
  std::vector<std::string> files;        ///< image_folder, relative to root
  IdxPaths idx;                          ///< idx
};

struct SourceListings {
  SourceListing train;                ///< the whole source where split.eval_fraction is set
  std::optional<SourceListing> eval;  ///< absent: no evaluation, or split from train
};

/// Lists the sources of a data section and checks that they fit together. Throws usage errors (a field that
/// the format needs is missing) and environment errors (missing, unreadable, empty, images and labels of
/// different number, a class without images, classes of evaluation that differ from training's).
SourceListings list_sources(const Sources& sources);

/// Evaluation samples that a split of `num_samples` sets aside: the nearest whole number to its share.
/// Throws a usage error when either part would be empty.
int64_t split_eval_samples(int64_t num_samples, double eval_fraction);

/// Samples, classes and sizes of both parts.
struct DataFacts {
  DatasetFacts train;
  std::optional<DatasetFacts> eval;
  std::vector<std::string> class_names;
};

/// list_sources' facts, with the split worked out.
DataFacts count(const Sources& sources);

}  // namespace ampctl::catalog
