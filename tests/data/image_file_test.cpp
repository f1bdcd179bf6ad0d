#include "data/image_file.h"

#include <fstream>

#include <sys/stat.h>

#include "base/error.h"
#include "data/image_cases.h"
#include "support/catch.h"
#include "support/matchers.h"
#include "support/process.h"
#include "support/skip.h"

using namespace ampctl;
using test::ContainsSubstring;

TEST_CASE("JPEG and PNG files of every kind decode to Pillow's pixels") {
  const auto& cases = test::image_cases().cases;
  if (cases.empty()) return test::skip("Python has no torchvision");
  int decoded = 0;
  for (const auto& entry : cases) {
    if (entry.operation != "decode") continue;
    INFO(entry.input.filename().string());
    CHECK(test::max_difference(test::decode_file(entry.input), entry.expected) == 0);
    ++decoded;
  }
  CHECK(decoded >= 27);
}

TEST_CASE("A part of an image is the same as that part of the whole") {
  const auto& cases = test::image_cases().cases;
  if (cases.empty()) return test::skip("Python has no torchvision");
  for (const auto& entry : cases) {
    if (entry.operation != "decode" || entry.expected.height < 8 || entry.expected.width < 8) continue;
    INFO(entry.input.filename().string());
    const auto reader = data::open_image(data::read_image_file(entry.input), "part");
    const data::Region region{3, 2, reader->height() - 5, reader->width() - 4};
    const data::Image part = reader->decode(region);
    bool same = true;
    for (int64_t y = 0; y < region.height; ++y) {
      for (int64_t x = 0; x < region.width; ++x) {
        const int64_t at = ((y + region.top) * entry.expected.width + x + region.left) * 3;
        for (int64_t c = 0; c < 3; ++c) {
          same = same && part.pixels[static_cast<size_t>((y * region.width + x) * 3 + c)] ==
                             entry.expected.pixels[static_cast<size_t>(at + c)];
        }
      }
    }
    CHECK(same);
  }
}

TEST_CASE("Damaged, truncated and oversized files are refused by name") {
  if (test::image_cases().cases.empty()) return test::skip("Python has no torchvision");
  const auto check = [](const std::string& name, const std::string& expected) {
    const auto file = test::image_cases().bad / name;
    INFO(name);
    CHECK_THROWS_AS(test::decode_file(file), data::DamagedSample);
    CHECK_THROWS_WITH(test::decode_file(file),
                      ContainsSubstring(file.string()) && ContainsSubstring(expected));
  };
  check("truncated.jpg", "damaged JPEG");
  check("no-end.jpg", "remature end");
  check("ends-early.jpg", "remature end");
  check("header-only.jpg", "damaged JPEG");
  check("empty.jpg", "is empty");
  check("text.jpg", "expected a JPEG or PNG");
  check("huge.jpg", "65000x65000");
  check("truncated.png", "damaged PNG");
  check("flipped.png", "damaged PNG");
  check("flipped-stored.png", "damaged PNG");
  check("huge.png", "60000x60000");
}

TEST_CASE("A file cut anywhere, or with any byte changed, is decoded or refused but never anything else") {
  if (test::image_cases().cases.empty()) return test::skip("Python has no torchvision");
  const auto try_all = [](const std::string& name) {
    const auto bytes = data::read_image_file(test::image_cases().bad.parent_path() / "in" / name);
    const auto try_one = [&](std::vector<uint8_t> changed) {
      try {
        const auto reader = data::open_image(std::move(changed), name);
        // A changed header may ask for a large image: legal, and too slow to try for every byte.
        constexpr int64_t kSmall = 1 << 20;
        if (reader->height() * reader->width() > kSmall) return true;
        static_cast<void>(reader->decode({0, 0, reader->height(), reader->width()}));
      } catch (const data::DamagedSample&) {
        return false;
      }
      return true;
    };
    for (size_t i = 0; i < bytes.size(); i += 7) {
      std::vector<uint8_t> changed = bytes;
      changed[i] = static_cast<uint8_t>(changed[i] ^ 0x5A);
      try_one(std::move(changed));
      CHECK_FALSE(try_one({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(i)}));
    }
  };
  try_all("rgb-420.jpg");
  try_all("progressive.jpg");
  try_all("cmyk.jpg");
  try_all("rgba.png");
  try_all("palette-clear.png");
}

TEST_CASE("A missing or unreadable file is an error of another kind than a damaged one") {
  const test::TempDir dir;
  const auto kind_of = [](const std::filesystem::path& file) {
    try {
      data::read_image_file(file);
    } catch (const data::DamagedSample&) {
      return std::string("damaged");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::environment);
      CHECK_THAT(error.what(), ContainsSubstring(file.string()));
      return std::string("unreadable");
    }
    return std::string("fine");
  };
  CHECK(kind_of(dir.path() / "absent.jpg") == "unreadable");
  CHECK(kind_of(dir.path()) == "unreadable");
  const auto sparse = dir.path() / "sparse.jpg";
  std::ofstream(sparse).put('x');
  std::filesystem::resize_file(sparse, uintmax_t{3} << 30);
  CHECK(kind_of(sparse) == "damaged");
}
