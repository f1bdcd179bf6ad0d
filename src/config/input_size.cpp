#include "config/input_size.h"

#include <algorithm>

namespace ampctl::config {
namespace {

// What is known of the image on its way: both sides, only the shorter one, or (zeros) nothing.
struct Extent {
  int64_t height = 0;
  int64_t width = 0;
  int64_t shorter = 0;
};

Extent square(int64_t size) { return {size, size, size}; }

// torchvision's rule: the shorter side becomes `size`, the longer one keeps the aspect, rounded down.
Extent resized(const Extent& image, int64_t size) {
  if (image.height == 0) return {0, 0, size};
  if (image.height <= image.width) return {size, size * image.width / image.height, size};
  return {size * image.height / image.width, size, size};
}

class Tracker {
 public:
  Tracker(const DatasetFacts& images, const std::string& key, std::vector<std::string>& problems)
      : channels_(images.channels), key_(key), problems_(problems) {
    if (images.height > 0) image_ = {images.height, images.width, std::min(images.height, images.width)};
  }

  void apply(const TransformConfig& t, size_t index) {
    const std::string at = key_ + "[" + std::to_string(index) + "]: ";
    if (t.name == "resize") {
      image_ = resized(image_, t.size);
    } else if (t.name == "random_resized_crop" || t.name == "center_crop") {
      image_ = square(t.size);
    } else if (t.name == "random_crop") {
      random_crop(t, at);
    } else if (t.name == "normalize") {
      const auto given = static_cast<int64_t>(t.mean.size());
      if (given == 1 || given == channels_) return;
      problems_.push_back(at + "normalize: expected mean and std of 1 or " + std::to_string(channels_) +
                          " channels as the images have, found " + std::to_string(given));
    }
  }

  [[nodiscard]] InputSize result() const {
    if (image_.height == 0) {
      problems_.push_back(key_ +
                          ": expected a transform that gives all images one size (resize and center_crop, or "
                          "random_resized_crop), since these images differ in size; found none");
    }
    return {image_.height, image_.width};
  }

 private:
  // center_crop gives a smaller image a border, as torchvision does; random_crop only the padding asked for.
  void random_crop(const TransformConfig& t, const std::string& at) {
    if (image_.shorter > 0 && image_.shorter + 2 * t.padding < t.size) {
      const std::string padded = t.padding > 0 ? " + 2 x padding " + std::to_string(t.padding) : "";
      problems_.push_back(at + "random_crop: expected a size of at most the image's shorter side, " +
                          std::to_string(image_.shorter) + padded + ", found " + std::to_string(t.size) +
                          "; resize first");
    }
    image_ = square(t.size);
  }

  int64_t channels_;
  const std::string& key_;
  std::vector<std::string>& problems_;
  Extent image_;
};

}  // namespace

InputSize input_size(const DatasetFacts& images, const std::vector<TransformConfig>& transforms,
                     const std::string& key, std::vector<std::string>& problems) {
  Tracker tracker(images, key, problems);
  for (size_t i = 0; i < transforms.size(); ++i) tracker.apply(transforms[i], i);
  return tracker.result();
}

}  // namespace ampctl::config
