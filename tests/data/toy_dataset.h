// A data set in memory whose images tell which sample they are.
#pragma once

#include <chrono>
#include <set>
#include <thread>

#include "data/dataset.h"

namespace ampctl::test {

class ToyDataset : public data::Dataset {
 public:
  explicit ToyDataset(int64_t size) : size_(size) {
    for (int64_t i = 0; i < size; ++i) targets_.push_back(i % 5);
  }

  std::set<int64_t> damaged;
  std::set<int64_t> wide;     // samples of another size
  std::set<int64_t> missing;  // samples that fail in another way than by damage
  bool dawdle = false;        // threads finish out of order

  [[nodiscard]] int64_t size() const override { return size_; }
  [[nodiscard]] data::Sample get(int64_t index) const override {
    if (dawdle) std::this_thread::sleep_for(std::chrono::microseconds(index * 7919 % 300));
    if (damaged.count(index) != 0) throw data::DamagedSample("image " + sample_name(index) + ": damaged");
    if (missing.count(index) != 0)
      throw environment_error("image " + sample_name(index) + ": cannot be read");
    const int64_t width = wide.count(index) != 0 ? 5 : 4;
    data::Image image{4, width, 1, std::vector<uint8_t>(static_cast<size_t>(4 * width))};
    for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(index + 3 * i);
    return {std::move(image), targets_[static_cast<size_t>(index)]};
  }
  [[nodiscard]] std::string sample_name(int64_t index) const override {
    return "toy/" + std::to_string(index) + ".jpg";
  }
  [[nodiscard]] const std::vector<int64_t>& targets() const override { return targets_; }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return class_names_; }
  [[nodiscard]] config::DatasetFacts facts() const override { return {size_, 5, 1, 4, 4}; }

 private:
  int64_t size_;
  std::vector<int64_t> targets_;
  std::vector<std::string> class_names_{"a", "b", "c", "d", "e"};
};

}  // namespace ampctl::test
