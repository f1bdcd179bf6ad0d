// JPEG and PNG files in class folders, read and decoded on demand.
#pragma once

#include "catalog/datasets.h"
#include "data/dataset.h"

namespace ampctl::data {

class ImageFolderDataset : public Dataset {
 public:
  explicit ImageFolderDataset(catalog::SourceListing listing) : listing_(std::move(listing)) {}
  [[nodiscard]] int64_t size() const override { return listing_.facts.num_samples; }
  [[nodiscard]] Sample get(int64_t index) const override;
  [[nodiscard]] std::unique_ptr<ImageReader> open(int64_t index) const override;
  [[nodiscard]] std::string sample_name(int64_t index) const override;
  [[nodiscard]] const std::vector<int64_t>& targets() const override { return listing_.targets; }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return listing_.class_names; }
  [[nodiscard]] config::DatasetFacts facts() const override { return listing_.facts; }

 private:
  catalog::SourceListing listing_;
};

}  // namespace ampctl::data
