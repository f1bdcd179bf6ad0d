#include "data/image_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace ampctl::data {
namespace {

constexpr int kPrecisionBits = 22;
constexpr int32_t kHalf = int32_t{1} << (kPrecisionBits - 1);

/// Which inputs make each output, and with what weight.
struct Filter {
  int64_t taps = 0;              // weights stored for each output
  std::vector<int64_t> first;    // first input of each output
  std::vector<int64_t> count;    // inputs of each output, at most taps
  std::vector<int32_t> weights;  // (outputs, taps), fixed point
};

Filter triangle_filter(int64_t inputs, int64_t outputs) {
  const double scale = static_cast<double>(inputs) / static_cast<double>(outputs);
  const double support = std::max(scale, 1.0);
  const double inverse = 1.0 / support;
  Filter filter;
  filter.taps = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  filter.first.resize(static_cast<size_t>(outputs));
  filter.count.resize(static_cast<size_t>(outputs));
  filter.weights.resize(static_cast<size_t>(outputs * filter.taps));
  std::vector<double> exact(static_cast<size_t>(filter.taps));
  for (int64_t out = 0; out < outputs; ++out) {
    const double center = (static_cast<double>(out) + 0.5) * scale;
    // Truncation toward zero and this order of operations are Pillow's: results must match to the bit.
    const int64_t first = std::max<int64_t>(static_cast<int64_t>(std::trunc(center - support + 0.5)), 0);
    const int64_t last = std::min<int64_t>(static_cast<int64_t>(std::trunc(center + support + 0.5)), inputs);
    double sum = 0.0;
    for (int64_t i = first; i < last; ++i) {
      const double distance = std::abs((static_cast<double>(i) - center + 0.5) * inverse);
      const double weight = distance < 1.0 ? 1.0 - distance : 0.0;
      exact[static_cast<size_t>(i - first)] = weight;
      sum += weight;
    }
    const auto o = static_cast<size_t>(out);
    filter.first[o] = first;
    filter.count[o] = last - first;
    for (int64_t i = 0; i < last - first; ++i) {
      const double weight = sum != 0.0 ? exact[static_cast<size_t>(i)] / sum : exact[static_cast<size_t>(i)];
      filter.weights[o * static_cast<size_t>(filter.taps) + static_cast<size_t>(i)] =
          static_cast<int32_t>(std::trunc(0.5 + weight * (int32_t{1} << kPrecisionBits)));
    }
  }
  return filter;
}

uint8_t to_byte(int32_t fixed) {
  return static_cast<uint8_t>(std::clamp<int32_t>(fixed >> kPrecisionBits, 0, UINT8_MAX));
}

template <int64_t Channels>
void filter_row(const uint8_t* in, const Filter& filter, int64_t outputs, uint8_t* out) {
  for (int64_t x = 0; x < outputs; ++x) {
    const uint8_t* pixel = in + filter.first[static_cast<size_t>(x)] * Channels;
    const int32_t* weight = filter.weights.data() + x * filter.taps;
    int32_t sums[Channels];
    std::fill_n(sums, Channels, kHalf);
    for (int64_t i = 0; i < filter.count[static_cast<size_t>(x)]; ++i, pixel += Channels) {
      for (int64_t c = 0; c < Channels; ++c) sums[c] += pixel[c] * weight[i];
    }
    for (int64_t c = 0; c < Channels; ++c) out[x * Channels + c] = to_byte(sums[c]);
  }
}

void filter_row(const uint8_t* in, int64_t channels, const Filter& filter, int64_t outputs, uint8_t* out) {
  switch (channels) {
    case 1:
      return filter_row<1>(in, filter, outputs, out);
    case 2:
      return filter_row<2>(in, filter, outputs, out);
    case 3:
      return filter_row<3>(in, filter, outputs, out);
    default:
      return filter_row<4>(in, filter, outputs, out);
  }
}

Image resize_rows(const Image& image, int64_t width) {
  const Filter filter = triangle_filter(image.width, width);
  Image result{image.height, width, image.channels, {}};
  result.pixels.resize(static_cast<size_t>(image.height * width * image.channels));
  for (int64_t y = 0; y < image.height; ++y) {
    filter_row(image.pixels.data() + y * image.width * image.channels, image.channels, filter, width,
               result.pixels.data() + y * width * image.channels);
  }
  return result;
}

Image resize_columns(const Image& image, int64_t height) {
  const Filter filter = triangle_filter(image.height, height);
  const int64_t stride = image.width * image.channels;
  Image result{height, image.width, image.channels, {}};
  result.pixels.resize(static_cast<size_t>(height * stride));
  std::vector<int32_t> sums(static_cast<size_t>(stride));
  for (int64_t y = 0; y < height; ++y) {
    std::fill(sums.begin(), sums.end(), kHalf);
    for (int64_t i = 0; i < filter.count[static_cast<size_t>(y)]; ++i) {
      const int32_t weight = filter.weights[static_cast<size_t>(y * filter.taps + i)];
      const uint8_t* row = image.pixels.data() + (filter.first[static_cast<size_t>(y)] + i) * stride;
      for (int64_t x = 0; x < stride; ++x) sums[static_cast<size_t>(x)] += row[x] * weight;
    }
    uint8_t* out = result.pixels.data() + y * stride;
    for (int64_t x = 0; x < stride; ++x) out[x] = to_byte(sums[static_cast<size_t>(x)]);
  }
  return result;
}

}  // namespace

Image crop(const Image& image, const Region& region) {
  Image result{region.height, region.width, image.channels, {}};
  result.pixels.resize(static_cast<size_t>(region.height * region.width * image.channels));
  const int64_t left = std::max<int64_t>(region.left, 0);
  const int64_t right = std::min(region.left + region.width, image.width);
  const int64_t top = std::max<int64_t>(region.top, 0);
  const int64_t bottom = std::min(region.top + region.height, image.height);
  if (left >= right) return result;
  for (int64_t y = top; y < bottom; ++y) {
    const uint8_t* from = image.pixels.data() + (y * image.width + left) * image.channels;
    uint8_t* to =
        result.pixels.data() + ((y - region.top) * region.width + (left - region.left)) * image.channels;
    std::memcpy(to, from, static_cast<size_t>((right - left) * image.channels));
  }
  return result;
}

void flip_horizontally(Image& image) {
  for (int64_t y = 0; y < image.height; ++y) {
    uint8_t* left = image.pixels.data() + y * image.width * image.channels;
    uint8_t* right = left + (image.width - 1) * image.channels;
    for (; left < right; left += image.channels, right -= image.channels) {
      std::swap_ranges(left, left + image.channels, right);
    }
  }
}

Image resize_bilinear(const Image& image, int64_t height, int64_t width) {
  if (width == image.width && height == image.height) return image;
  if (width == image.width) return resize_columns(image, height);
  const Image narrowed = resize_rows(image, width);
  return height == image.height ? narrowed : resize_columns(narrowed, height);
}

Image DecodedImageReader::decode(const Region& region) {
  if (region == Region{0, 0, image_.height, image_.width}) return std::move(image_);
  return crop(image_, region);
}

}  // namespace ampctl::data
