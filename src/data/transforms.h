// Transforms of uint8 images with torchvision's rules, drawn before the image is decoded: a plan says which
// part of the source is needed and what to do with it.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "config/data_config.h"
#include "data/image.h"
#include "data/random.h"

namespace ampctl::data {

struct CropStep {
  Region region;  // may reach beyond the image: zeros there
};
struct ResizeStep {
  int64_t height = 0;
  int64_t width = 0;
};
struct FlipStep {};
using TransformStep = std::variant<CropStep, ResizeStep, FlipStep>;

/// What will be done to one image.
struct TransformPlan {
  Region source;                     ///< inside the image: the part to decode
  std::vector<TransformStep> steps;  ///< applied to that part, in order
};

/// Per-channel factors that turn bytes into model input: y = x * scale + shift.
struct ChannelAffine {
  std::vector<float> scale;
  std::vector<float> shift;
};

class Transforms {
 public:
  /// Throws usage errors: unknown name, size < 1, a range that is empty, normalize not at the end.
  explicit Transforms(std::vector<config::TransformConfig> configs);

  /// Draws the transforms of one image of this size, in torchvision's order of draws. `name` stands in
  /// messages. Throws an environment error where the image is smaller than a random_crop.
  [[nodiscard]] TransformPlan plan(int64_t height, int64_t width, Random& random,
                                   const std::string& name) const;

  /// ToTensor's 1/255, followed by normalize where it is listed (one value, or one a channel).
  [[nodiscard]] ChannelAffine affine(int64_t channels) const;

  /// False when images come out as they went in.
  [[nodiscard]] bool changes_images() const { return !geometric_.empty(); }

 private:
  std::vector<config::TransformConfig> geometric_;
  std::vector<double> mean_;
  std::vector<double> std_;
};

/// The image that `reader` holds, as planned.
Image apply(const TransformPlan& plan, ImageReader& reader);

}  // namespace ampctl::data
