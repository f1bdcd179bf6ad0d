#include "data/transforms.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "data/image_file.h"
#include "data/image_ops.h"

namespace ampctl::data {
namespace {

using config::TransformConfig;

constexpr double kByteMax = 255.0;
constexpr int kCropTries = 10;

struct Size {
  int64_t height = 0;
  int64_t width = 0;
};

/// Half of a difference, halves rounded to even as Python's round().
int64_t half_to_even(int64_t difference) {
  const int64_t half = difference / 2;
  return difference % 2 == 0 ? half : half + half % 2;
}

/// torchvision.transforms.Resize(size): the short side becomes `size`, the long one is truncated.
Size resized(Size image, int64_t size) {
  const auto [shorter, longer] = std::minmax(image.height, image.width);
  const auto long_side =
      static_cast<int64_t>(static_cast<double>(size * longer) / static_cast<double>(shorter));
  return image.width <= image.height ? Size{long_side, size} : Size{size, long_side};
}

/// torchvision's center_crop, which pads an image that is too small with zeros first.
Region center_crop(Size image, int64_t size) {
  const auto offset = [size](int64_t extent) {
    return extent < size ? -((size - extent) / 2) : half_to_even(extent - size);
  };
  return {offset(image.height), offset(image.width), size, size};
}

Region random_crop(Size image, const TransformConfig& config, Random& random, const std::string& name) {
  const int64_t room_down = image.height + 2 * config.padding - config.size;
  const int64_t room_right = image.width + 2 * config.padding - config.size;
  if (room_down < 0 || room_right < 0) {
    throw environment_error("image " + name + ": " + std::to_string(image.width) + "x" +
                            std::to_string(image.height) + " pixels, too small for random_crop of " +
                            std::to_string(config.size) + " with padding " + std::to_string(config.padding) +
                            "; put a resize before it or pad more");
  }
  const int64_t top = random.below(room_down + 1);
  const int64_t left = random.below(room_right + 1);
  return {top - config.padding, left - config.padding, config.size, config.size};
}

int64_t rounded(double value) { return static_cast<int64_t>(std::nearbyint(value)); }

/// torchvision.transforms.RandomResizedCrop.get_params: area and log of the aspect ratio uniform, ten tries,
/// else the largest central crop whose ratio is allowed.
Region random_resized_crop(Size image, const TransformConfig& config, Random& random) {
  const double area = static_cast<double>(image.height) * static_cast<double>(image.width);
  const double log_from = std::log(config.ratio[0]);
  const double log_to = std::log(config.ratio[1]);
  for (int i = 0; i < kCropTries; ++i) {
    const double target_area = area * random.uniform(config.scale[0], config.scale[1]);
    const double ratio = std::exp(random.uniform(log_from, log_to));
    const int64_t width = rounded(std::sqrt(target_area * ratio));
    const int64_t height = rounded(std::sqrt(target_area / ratio));
    if (width < 1 || width > image.width || height < 1 || height > image.height) continue;
    const int64_t top = random.below(image.height - height + 1);
    const int64_t left = random.below(image.width - width + 1);
    return {top, left, height, width};
  }
  const double ratio = static_cast<double>(image.width) / static_cast<double>(image.height);
  Size size = image;
  // At least one pixel: torchvision rounds to 0 for extreme shapes and then fails.
  if (ratio < config.ratio[0]) {
    size.height = std::max<int64_t>(rounded(static_cast<double>(image.width) / config.ratio[0]), 1);
  } else if (ratio > config.ratio[1]) {
    size.width = std::max<int64_t>(rounded(static_cast<double>(image.height) * config.ratio[1]), 1);
  }
  return {(image.height - size.height) / 2, (image.width - size.width) / 2, size.height, size.width};
}

bool inside(const Region& region, Size image) {
  return region.top >= 0 && region.left >= 0 && region.top + region.height <= image.height &&
         region.left + region.width <= image.width;
}

void check(const TransformConfig& config) {
  const auto refuse = [&](const std::string& what) {
    throw usage_error("data transforms: " + config.name + ": " + what);
  };
  if (config.name == "horizontal_flip") {
    if (!(config.p >= 0.0 && config.p <= 1.0))
      refuse("expected p from 0 to 1, found " + std::to_string(config.p));
    return;
  }
  if (config.name == "normalize") {
    if (config.mean.empty() || config.std.empty()) refuse("expected `mean` and `std`");
    const auto bad = [](double value) { return !(value > 0.0); };
    if (std::any_of(config.std.begin(), config.std.end(), bad)) refuse("expected std above 0");
    return;
  }
  const bool random_resized = config.name == "random_resized_crop";
  if (!random_resized && config.name != "resize" && config.name != "center_crop" &&
      config.name != "random_crop") {
    refuse(
        "is not a transform; expected resize, center_crop, random_crop, random_resized_crop, "
        "horizontal_flip or normalize");
  }
  if (config.size < 1) refuse("expected a size of at least 1 pixel, found " + std::to_string(config.size));
  if (config.padding < 0) refuse("expected padding of at least 0, found " + std::to_string(config.padding));
  const auto rising = [](const std::array<double, 2>& range) {
    return range[0] > 0.0 && range[0] <= range[1];
  };
  if (random_resized && (!rising(config.scale) || !rising(config.ratio))) {
    refuse("expected scale and ratio as rising pairs above 0");
  }
}

struct Apply {
  Image image;
  void operator()(const CropStep& step) { image = crop(image, step.region); }
  void operator()(const ResizeStep& step) { image = resize_bilinear(image, step.height, step.width); }
  void operator()(const FlipStep&) { flip_horizontally(image); }
};

}  // namespace

Transforms::Transforms(std::vector<TransformConfig> configs) {
  for (size_t i = 0; i < configs.size(); ++i) {
    check(configs[i]);
    if (configs[i].name != "normalize") continue;
    if (i + 1 != configs.size()) throw usage_error("data transforms: normalize must be the last transform");
    mean_ = configs[i].mean;
    std_ = configs[i].std;
    configs.pop_back();
  }
  geometric_ = std::move(configs);
}

TransformPlan Transforms::plan(int64_t height, int64_t width, Random& random, const std::string& name) const {
  TransformPlan plan{{0, 0, height, width}, {}};
  Size size{height, width};
  const auto add_crop = [&](const Region& region) {
    if (plan.steps.empty() && inside(region, size)) {
      plan.source = {plan.source.top + region.top, plan.source.left + region.left, region.height,
                     region.width};
    } else {
      plan.steps.emplace_back(CropStep{region});
    }
    size = {region.height, region.width};
  };
  const auto add_resize = [&](Size to) {
    // A strip of pixels, 1 high and a million wide, is small until its short side is stretched.
    check_image_size(to.height, to.width, name + " after resize");
    if (to.height != size.height || to.width != size.width) {
      plan.steps.emplace_back(ResizeStep{to.height, to.width});
    }
    size = to;
  };
  for (const auto& config : geometric_) {
    if (config.name == "resize") {
      add_resize(resized(size, config.size));
    } else if (config.name == "center_crop") {
      add_crop(center_crop(size, config.size));
    } else if (config.name == "random_crop") {
      add_crop(random_crop(size, config, random, name));
    } else if (config.name == "random_resized_crop") {
      add_crop(random_resized_crop(size, config, random));
      add_resize({config.size, config.size});
    } else if (random.uniform() < config.p) {
      plan.steps.emplace_back(FlipStep{});
    }
  }
  return plan;
}

ChannelAffine Transforms::affine(int64_t channels) const {
  const auto fits = [channels](const std::vector<double>& values) {
    return values.size() <= 1 || static_cast<int64_t>(values.size()) == channels;
  };
  if (!fits(mean_) || !fits(std_)) {
    throw usage_error("data transforms: normalize: expected 1 or " + std::to_string(channels) +
                      " values of mean and std (the images' channels), found " +
                      std::to_string(mean_.size()) + " and " + std::to_string(std_.size()));
  }
  const auto value = [](const std::vector<double>& values, int64_t channel, double otherwise) {
    if (values.empty()) return otherwise;
    return values.size() == 1 ? values[0] : values[static_cast<size_t>(channel)];
  };
  ChannelAffine affine;
  for (int64_t c = 0; c < channels; ++c) {
    const double std = value(std_, c, 1.0);
    affine.scale.push_back(static_cast<float>(1.0 / (kByteMax * std)));
    affine.shift.push_back(static_cast<float>(-value(mean_, c, 0.0) / std));
  }
  return affine;
}

Image apply(const TransformPlan& plan, ImageReader& reader) {
  Apply apply_step{reader.decode(plan.source)};
  for (const auto& step : plan.steps) std::visit(apply_step, step);
  return std::move(apply_step.image);
}

}  // namespace ampctl::data
