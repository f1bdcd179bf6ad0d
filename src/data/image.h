// Decoded images, parts of them, and readers that know an image's size before its pixels are decoded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace ampctl::data {

/// One decoded image, interleaved uint8 (height, width, channels).
struct Image {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  std::vector<uint8_t> pixels;
};

/// A rectangle of pixels. It may reach beyond an image where zeros stand for what is outside.
struct Region {
  int64_t top = 0;
  int64_t left = 0;
  int64_t height = 0;
  int64_t width = 0;

  friend bool operator==(const Region&, const Region&) = default;
};

/// The file of a sample is damaged or refused; its message names the file. Only these failures can be
/// skipped (data.on_corrupt: skip): a file that cannot be opened or read is another matter.
class DamagedSample : public Error {
 public:
  explicit DamagedSample(const std::string& message) : Error(ErrorKind::environment, message) {}
};

/// An image whose size is known and whose pixels are decoded on demand, so that transforms can be drawn
/// first and a reader decodes only the part they need.
class ImageReader {
 public:
  virtual ~ImageReader() = default;
  [[nodiscard]] virtual int64_t height() const = 0;
  [[nodiscard]] virtual int64_t width() const = 0;
  /// The pixels of `region`, which lies inside the image. Called at most once. Throws DamagedSample.
  [[nodiscard]] virtual Image decode(const Region& region) = 0;
};

/// A reader over pixels that are already there.
class DecodedImageReader : public ImageReader {
 public:
  explicit DecodedImageReader(Image image) : image_(std::move(image)) {}
  [[nodiscard]] int64_t height() const override { return image_.height; }
  [[nodiscard]] int64_t width() const override { return image_.width; }
  [[nodiscard]] Image decode(const Region& region) override;

 private:
  Image image_;
};

}  // namespace ampctl::data
