// Images and labels of an IDX pair, held in memory.
#pragma once

#include "catalog/datasets.h"
#include "data/dataset.h"

namespace ampctl::data {

class IdxDataset : public Dataset {
 public:
  /// Reads the image file whole. Throws environment errors as catalog::read_idx.
  explicit IdxDataset(catalog::SourceListing listing);
  [[nodiscard]] int64_t size() const override { return listing_.facts.num_samples; }
  [[nodiscard]] Sample get(int64_t index) const override;
  [[nodiscard]] const std::vector<int64_t>& targets() const override { return listing_.targets; }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return listing_.class_names; }
  [[nodiscard]] config::DatasetFacts facts() const override { return listing_.facts; }

 private:
  catalog::SourceListing listing_;
  std::vector<uint8_t> pixels_;  // (samples, height, width)
};

}  // namespace ampctl::data
