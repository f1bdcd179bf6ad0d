// The quickstart's data set.
#include <array>

#include "scripts/shell.h"
#include "support/catch.h"
#include "support/skip.h"

using namespace ampctl::test;

namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("the digits become IDX files with the images and classes that their source documents") {
  if (!python_has({"sklearn"})) return skip("Python has no scikit-learn; scripts/test.sh installs it");
  const TempDir folder;
  const auto result = python_script("make_digits.py", folder.path().string());
  REQUIRE(result.exit_code == 0);
  CHECK(contains(result.out, "CC BY 4.0"));

  const std::string images = read(folder.path() / "images-idx3-ubyte");
  CHECK(images.substr(0, 16) == std::string("\0\0\x08\x03\0\0\x07\x05\0\0\0\x08\0\0\0\x08", 16));
  CHECK(images.size() == 16 + 1797 * 8 * 8);
  // The first image's first row, 0 0 5 13 9 1 0 0 of 16, in bytes.
  const std::array<int, 8> row{0, 0, 80, 207, 143, 16, 0, 0};
  for (size_t i = 0; i < row.size(); ++i) CHECK(static_cast<unsigned char>(images[16 + i]) == row[i]);

  const std::string labels = read(folder.path() / "labels-idx1-ubyte");
  CHECK(labels.substr(0, 8) == std::string("\0\0\x08\x01\0\0\x07\x05", 8));
  std::array<int, 10> count{};
  for (const char label : labels.substr(8)) ++count.at(static_cast<size_t>(label));
  // From the data set's own description (optdigits.names, testing set).
  CHECK(count == std::array<int, 10>{178, 182, 177, 183, 181, 182, 181, 179, 174, 180});
}
