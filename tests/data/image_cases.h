// Images and what Pillow makes of them, written by tests/reference/data_images.py.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/image.h"

namespace ampctl::test {

struct ImageCase {
  std::filesystem::path input;
  std::string operation;
  std::vector<int64_t> arguments;
  data::Image expected;
};

struct ImageCases {
  std::vector<ImageCase> cases;
  std::filesystem::path bad;  ///< a folder of files that must be refused
};

/// Runs the script once a process. Empty when Python lacks torchvision.
const ImageCases& image_cases();

/// 0 for images of equal size and pixels, UINT8_MAX + 1 for different sizes.
int max_difference(const data::Image& a, const data::Image& b);

/// The whole file, decoded.
data::Image decode_file(const std::filesystem::path& file);

}  // namespace ampctl::test
