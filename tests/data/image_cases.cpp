#include "data/image_cases.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "data/image_file.h"
#include "support/process.h"

namespace ampctl::test {
namespace {

data::Image read_expected(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  int32_t sizes[3] = {};
  file.read(reinterpret_cast<char*>(sizes), sizeof(sizes));
  data::Image image{sizes[0], sizes[1], sizes[2], {}};
  image.pixels.resize(static_cast<size_t>(image.height * image.width * image.channels));
  file.read(reinterpret_cast<char*>(image.pixels.data()), static_cast<std::streamsize>(image.pixels.size()));
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return image;
}

ImageCases make_cases(const std::filesystem::path& folder) {
  if (!python_has({"torchvision"})) return {};
  const auto script = source_dir() / "tests" / "reference" / "data_images.py";
  std::vector<std::string> command{python(), script.string(), folder.string()};
  if (!shared_data_dir().empty()) command.push_back(shared_data_dir().string());
  const auto result = run(command);
  if (result.exit_code != 0) throw std::runtime_error("data_images.py failed: " + result.err);

  ImageCases cases;
  cases.bad = folder / "bad";
  std::ifstream list(folder / "cases.txt");
  for (std::string line; std::getline(list, line);) {
    std::istringstream words(line);
    std::string expected;
    ImageCase entry;
    words >> expected >> entry.input >> entry.operation;
    for (int64_t argument = 0; words >> argument;) entry.arguments.push_back(argument);
    entry.expected = read_expected(expected);
    cases.cases.push_back(std::move(entry));
  }
  return cases;
}

}  // namespace

const ImageCases& image_cases() {
  static const TempDir folder;
  static const ImageCases cases = make_cases(folder.path());
  return cases;
}

int max_difference(const data::Image& a, const data::Image& b) {
  if (a.height != b.height || a.width != b.width || a.channels != b.channels) return UINT8_MAX + 1;
  int difference = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i) {
    difference = std::max(difference, std::abs(int{a.pixels[i]} - int{b.pixels[i]}));
  }
  return difference;
}

data::Image decode_file(const std::filesystem::path& file) {
  const auto reader = data::open_image(data::read_image_file(file), file.string());
  return reader->decode({0, 0, reader->height(), reader->width()});
}

}  // namespace ampctl::test
