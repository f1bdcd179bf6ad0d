// A finite, indexable source of labelled images. Implementations are immutable and used by many threads at
// once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/data_config.h"
#include "config/run_plan.h"
#include "data/image.h"

namespace ampctl::data {

struct Sample {
  Image image;
  int64_t target = 0;
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual int64_t size() const = 0;
  /// Decodes sample `index`. Throws DamagedSample, an environment error naming the file, when it is damaged.
  [[nodiscard]] virtual Sample get(int64_t index) const = 0;
  /// Sample `index` with its size known and its pixels not decoded yet, where the source allows that.
  [[nodiscard]] virtual std::unique_ptr<ImageReader> open(int64_t index) const;
  /// What messages call sample `index`: its file, where it has one.
  [[nodiscard]] virtual std::string sample_name(int64_t index) const;
  /// True for made-up samples: a loader may then repeat a few batches instead of making all.
  [[nodiscard]] virtual bool made_up() const { return false; }
  [[nodiscard]] virtual const std::vector<int64_t>& targets() const = 0;
  [[nodiscard]] virtual const std::vector<std::string>& class_names() const = 0;
  [[nodiscard]] virtual config::DatasetFacts facts() const = 0;
};

using DatasetPtr = std::shared_ptr<const Dataset>;

struct TrainEval {
  DatasetPtr train;
  DatasetPtr eval;  ///< null: no evaluation
};

/// Opens what the data section names, splitting one source where it says so. Throws environment errors
/// (missing, unreadable, empty, a class without images).
TrainEval open_datasets(const config::DataConfig& config, int64_t seed);

}  // namespace ampctl::data
