// The data: section: sources, their split, transforms and the loader.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "catalog/source.h"

namespace ampctl::config {

/// One entry of a transforms list: a bare name (`horizontal_flip`), a name with its main value
/// (`random_resized_crop: 224`) or a name with a map (`random_crop: {size: 32, padding: 4}`).
struct TransformConfig {
  std::string name;  // resize | center_crop | random_crop | random_resized_crop | horizontal_flip | normalize
  int64_t size = 0;  // pixels
  int64_t padding = 0;                     // random_crop, zeros on each side
  double p = 0.5;                          // horizontal_flip
  std::array<double, 2> scale{0.08, 1.0};  // random_resized_crop, share of the area
  std::array<double, 2> ratio{3.0 / 4.0, 4.0 / 3.0};
  std::vector<double> mean;  // normalize, per channel, of values in [0, 1]
  std::vector<double> std;

  bool operator==(const TransformConfig&) const = default;
};

struct DatasetConfig : catalog::Source {
  std::vector<TransformConfig> transforms;

  bool operator==(const DatasetConfig&) const = default;
};

/// One source split into a training and an evaluation part.
struct SplitConfig {
  std::optional<double> eval_fraction;  // set: `eval` gives transforms only
  int64_t seed = 0;
  bool stratified = true;

  bool operator==(const SplitConfig&) const = default;
};

struct DataConfig {
  std::optional<int64_t> batch_size;         // samples a GPU and micro-step
  std::optional<int64_t> global_batch_size;  // samples an optimizer step
  int64_t num_workers = 4;                   // decoding threads
  int64_t prefetch_factor = 2;               // batches ahead, a worker
  bool pin_memory = true;
  bool shuffle = true;
  bool drop_last = false;
  std::string on_corrupt = "error";  // error | skip
  int64_t max_corrupt = 100;         // skip: more than so many different files end the run
  DatasetConfig train;
  std::optional<DatasetConfig> eval;
  SplitConfig split;

  bool operator==(const DataConfig&) const = default;
};

/// What of a data section concerns where samples come from.
inline catalog::Sources sources(const DataConfig& config) {
  const catalog::Source& train = config.train;
  catalog::Sources found{train, std::nullopt, config.split.eval_fraction};
  if (config.eval) {
    const catalog::Source& eval = *config.eval;
    found.eval = eval;
  }
  return found;
}

}  // namespace ampctl::config
