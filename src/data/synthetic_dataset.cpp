#include "data/synthetic_dataset.h"

#include <algorithm>

#include "data/random.h"

namespace ampctl::data {
namespace {

constexpr size_t kBytesADraw = sizeof(uint64_t);
constexpr unsigned kByteBits = 8;

}  // namespace

SyntheticDataset::SyntheticDataset(const config::DatasetFacts& facts, int64_t seed)
    : facts_(facts), seed_(seed) {
  Random random(seed, Stream::targets);
  targets_.reserve(static_cast<size_t>(facts.num_samples));
  for (int64_t i = 0; i < facts.num_samples; ++i) targets_.push_back(random.below(facts.num_classes));
  class_names_.reserve(static_cast<size_t>(facts.num_classes));
  for (int64_t c = 0; c < facts.num_classes; ++c) class_names_.push_back(std::to_string(c));
}

Sample SyntheticDataset::get(int64_t index) const {
  Image image{facts_.height, facts_.width, facts_.channels, {}};
  image.pixels.resize(static_cast<size_t>(image.height * image.width * image.channels));
  Random random(seed_, Stream::pixels, index);
  for (size_t i = 0; i < image.pixels.size(); i += kBytesADraw) {
    uint64_t draw = random.next();
    // Byte by byte, lowest first: the same image on a machine of either byte order.
    const size_t count = std::min(kBytesADraw, image.pixels.size() - i);
    for (size_t b = 0; b < count; ++b, draw >>= kByteBits) image.pixels[i + b] = static_cast<uint8_t>(draw);
  }
  return {std::move(image), targets_[static_cast<size_t>(index)]};
}

}  // namespace ampctl::data
