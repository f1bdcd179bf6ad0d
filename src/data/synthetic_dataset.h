// Made-up images and targets, for benchmarks and trials without data: a pure function of (seed, index).
#pragma once

#include "data/dataset.h"

namespace ampctl::data {

class SyntheticDataset : public Dataset {
 public:
  SyntheticDataset(const config::DatasetFacts& facts, int64_t seed);
  [[nodiscard]] int64_t size() const override { return facts_.num_samples; }
  [[nodiscard]] Sample get(int64_t index) const override;
  [[nodiscard]] bool made_up() const override { return true; }
  [[nodiscard]] const std::vector<int64_t>& targets() const override { return targets_; }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return class_names_; }
  [[nodiscard]] config::DatasetFacts facts() const override { return facts_; }

 private:
  config::DatasetFacts facts_;
  int64_t seed_;
  std::vector<int64_t> targets_;
  std::vector<std::string> class_names_;
};

}  // namespace ampctl::data
