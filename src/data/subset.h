// Some samples of a data set, as one of their own (torch.utils.data.Subset).
#pragma once

#include "data/dataset.h"

namespace ampctl::data {

class Subset : public Dataset {
 public:
  Subset(DatasetPtr whole, std::vector<int64_t> indices);
  [[nodiscard]] int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  [[nodiscard]] Sample get(int64_t index) const override { return whole_->get(at(index)); }
  [[nodiscard]] std::unique_ptr<ImageReader> open(int64_t index) const override {
    return whole_->open(at(index));
  }
  [[nodiscard]] std::string sample_name(int64_t index) const override {
    return whole_->sample_name(at(index));
  }
  [[nodiscard]] bool made_up() const override { return whole_->made_up(); }
  [[nodiscard]] const std::vector<int64_t>& targets() const override { return targets_; }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return whole_->class_names(); }
  [[nodiscard]] config::DatasetFacts facts() const override;

 private:
  [[nodiscard]] int64_t at(int64_t index) const { return indices_[static_cast<size_t>(index)]; }

  DatasetPtr whole_;
  std::vector<int64_t> indices_;
  std::vector<int64_t> targets_;
};

}  // namespace ampctl::data
