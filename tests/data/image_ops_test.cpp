#include "data/image_ops.h"

#include "data/image_cases.h"
#include "data/transforms.h"
#include "support/catch.h"
#include "support/skip.h"

using namespace ampctl;

namespace {

config::TransformConfig transform(const std::string& name, int64_t size) {
  config::TransformConfig config;
  config.name = name;
  config.size = size;
  return config;
}

data::Image transformed(data::Image image, const config::TransformConfig& config) {
  const data::Transforms transforms({config});
  data::Random random(1, data::Stream::augmentation);
  const auto plan = transforms.plan(image.height, image.width, random, "image");
  data::DecodedImageReader reader(std::move(image));
  return data::apply(plan, reader);
}

data::Image result_of(const test::ImageCase& entry) {
  data::Image image = test::decode_file(entry.input);
  const auto& a = entry.arguments;
  if (entry.operation == "resize" || entry.operation == "center_crop") {
    return transformed(std::move(image), transform(entry.operation, a[0]));
  }
  if (entry.operation == "resize_in_two_passes") return data::resize_bilinear(image, a[0], a[1]);
  if (entry.operation == "crop") return data::crop(image, {a[0], a[1], a[2], a[3]});
  if (entry.operation == "resized_crop") {
    return data::resize_bilinear(data::crop(image, {a[0], a[1], a[2], a[3]}), a[4], a[4]);
  }
  data::flip_horizontally(image);
  return image;
}

}  // namespace

TEST_CASE("Crops, flips and resizing in two passes give Pillow's pixels exactly, resizing at once within 1") {
  const auto& cases = test::image_cases().cases;
  if (cases.empty()) return test::skip("Python has no torchvision");
  int compared = 0;
  for (const auto& entry : cases) {
    if (entry.operation == "decode") continue;
    INFO(entry.input.filename().string()
         << " " << entry.operation << " " << (entry.arguments.empty() ? 0 : entry.arguments[0]));
    // Newer Pillow goes along columns first for some sizes, which rounds the pixels between differently.
    const bool at_once = entry.operation == "resize" || entry.operation == "resized_crop";
    CHECK(test::max_difference(result_of(entry), entry.expected) <= (at_once ? 1 : 0));
    ++compared;
  }
  CHECK(compared == 105);
}

TEST_CASE("Resizing treats any number of channels alike") {
  data::Image all{5, 7, 4, {}};
  data::Random random(3, data::Stream::pixels);
  for (int i = 0; i < 5 * 7 * 4; ++i) all.pixels.push_back(static_cast<uint8_t>(random.next()));
  const data::Image resized = data::resize_bilinear(all, 3, 11);
  for (int64_t channels = 1; channels <= 3; ++channels) {
    data::Image some{5, 7, channels, {}};
    for (size_t i = 0; i < 5 * 7; ++i) {
      for (int64_t c = 0; c < channels; ++c)
        some.pixels.push_back(all.pixels[i * 4 + static_cast<size_t>(c)]);
    }
    const data::Image result = data::resize_bilinear(some, 3, 11);
    for (size_t i = 0; i < 3 * 11; ++i) {
      for (int64_t c = 0; c < channels; ++c) {
        CHECK(result.pixels[i * static_cast<size_t>(channels) + static_cast<size_t>(c)] ==
              resized.pixels[i * 4 + static_cast<size_t>(c)]);
      }
    }
  }
}
