// JPEG and PNG files as PIL.Image.open(file).convert("RGB") reads them: greyscale replicated, palettes looked
// up, alpha dropped, CMYK and YCCK converted by Pillow's formulas, 16-bit samples cut to 8 as Pillow does,
// EXIF orientation not applied. The content decides which format a file has, not its name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/image.h"

namespace ampctl::data {

/// Pixels above which an image is refused before memory is taken for it: Pillow's limit against
/// decompression bombs (twice Image.MAX_IMAGE_PIXELS).
inline constexpr int64_t kMaxImagePixels = 178'956'970;

/// The whole file. Throws environment errors: missing, unreadable, larger than any image accepted.
std::vector<uint8_t> read_image_file(const std::filesystem::path& path);

/// Reads an image's header. `name` stands in messages. Throws DamagedSample, as decode() of the reader does:
/// neither JPEG nor PNG, damaged, truncated, more than kMaxImagePixels. Stricter than Pillow in one point: a
/// JPEG whose compressed data is damaged in the middle is refused too.
std::unique_ptr<ImageReader> open_image(std::vector<uint8_t> bytes, const std::string& name);

/// For open_image.
std::unique_ptr<ImageReader> open_jpeg(std::vector<uint8_t> bytes, const std::string& name);
std::unique_ptr<ImageReader> open_png(std::vector<uint8_t> bytes, const std::string& name);

/// Throws DamagedSample when an image of this size is empty or too large.
void check_image_size(int64_t height, int64_t width, const std::string& name);

}  // namespace ampctl::data
