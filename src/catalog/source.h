// A data source as named, and what opening it tells: what both the configuration and the listing of data sets
// speak of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ampctl::catalog {

/// Where images and labels are; the fields that the format does not use are ignored.
struct Source {
  std::string format;                 ///< idx | image_folder | synthetic
  std::optional<std::string> path;    ///< a folder
  std::optional<std::string> images;  ///< idx: files, else found in `path` by their usual names
  std::optional<std::string> labels;
  int64_t num_samples = 1024;  ///< synthetic
  int64_t image_size = 224;    ///< synthetic, pixels
  int64_t channels = 3;        ///< synthetic
  int64_t num_classes = 1000;  ///< synthetic

  bool operator==(const Source&) const = default;
};

/// The sources of an experiment. A fraction set: evaluation samples are taken from `train`, and `eval` names
/// no source of its own.
struct Sources {
  Source train;
  std::optional<Source> eval;
  std::optional<double> eval_fraction;
};

/// What listing a source told, without decoding an image.
struct DatasetFacts {
  int64_t num_samples = 0;
  int64_t num_classes = 0;
  int64_t channels = 0;
  int64_t height = 0;  ///< pixels; 0: images of different sizes
  int64_t width = 0;
};

}  // namespace ampctl::catalog
