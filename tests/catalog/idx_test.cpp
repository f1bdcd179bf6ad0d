#include "catalog/idx.h"

#include <string>

#include "base/error.h"
#include "catalog/idx_files.h"
#include "support/catch.h"
#include "support/matchers.h"
#include "support/process.h"

using namespace ampctl;
using test::ContainsSubstring;
using test::idx_bytes;

namespace {

std::string failure(const std::filesystem::path& file, size_t rank = 3) {
  try {
    catalog::read_idx(file, rank);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::environment);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("An IDX file reads the same plain and in gzip, whatever its name") {
  const test::TempDir dir;
  const std::string bytes = idx_bytes({2, 2, 3}, "abcdefghijkl");
  test::write_file(dir.path() / "named.gz", bytes);
  test::write_gzip(dir.path() / "plain", bytes);
  for (const char* name : {"named.gz", "plain"}) {
    const catalog::IdxArray array = catalog::read_idx(dir.path() / name, 3);
    CHECK(array.dims == std::vector<int64_t>{2, 2, 3});
    CHECK(std::string(array.values.begin(), array.values.end()) == "abcdefghijkl");
    CHECK(catalog::read_idx_dims(dir.path() / name, 3) == array.dims);
  }
}

TEST_CASE("A damaged IDX file is refused with its name and what is wrong") {
  const test::TempDir dir;
  const auto file = dir.path() / "bad";
  const auto check = [&](const std::string& bytes, const std::string& expected) {
    test::write_file(file, bytes);
    const std::string message = failure(file);
    INFO(message);
    CHECK(message.find(file.string()) != std::string::npos);
    CHECK(message.find(expected) != std::string::npos);
  };
  check("", "not an IDX file");
  check("PK\x03\x04 something else", "not an IDX file");
  check(idx_bytes({2, 2, 3}, std::string(12, 'x'), 0x0D), "found type 13");
  check(idx_bytes({12}, std::string(12, 'x')), "expected 3 dimensions");
  check(idx_bytes({2, 2, 3}, "").substr(0, 9), "ends inside its header");
  check(idx_bytes({0, 2, 3}, ""), "holds no elements");
  check(idx_bytes({2, 2, 3}, "abcdefghijk"), "expected 12 elements, found only 11");
  check(idx_bytes({2, 2, 3}, "abcdefghijklm"), "longer than the 12 elements");

  test::write_gzip(file, idx_bytes({2, 2, 3}, "abcdefghijkl"));
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 9);
  CHECK(failure(file).find("damaged or cannot be read") != std::string::npos);
  CHECK(failure(dir.path() / "absent").find("does not exist") != std::string::npos);
  CHECK(failure(dir.path()).find("not a regular file") != std::string::npos);
}

TEST_CASE("A hostile IDX header takes no memory") {
  const test::TempDir dir;
  const auto file = dir.path() / "hostile";
  test::write_file(file, idx_bytes({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, "x"));
  CHECK(failure(file).find("more elements than a file can hold") != std::string::npos);
  // Dimensions whose product wraps round to 0 in 64 bits.
  test::write_file(file, idx_bytes({0x80000000, 0x80000000, 4}, "x"));
  CHECK(failure(file).find("more elements than a file can hold") != std::string::npos);
  test::write_file(file, idx_bytes({1000000, 1000, 100}, "x"));
  CHECK(failure(file).find("cannot hold more than 17") != std::string::npos);
  test::write_gzip(file, idx_bytes({1000000, 1000, 100}, "x"));
  CHECK(failure(file).find("cannot hold more than") != std::string::npos);
}

TEST_CASE("IDX files are found by their usual names, as the role asks") {
  const test::TempDir dir;
  catalog::Source config;
  config.format = "idx";
  config.path = dir.path().string();
  CHECK_THROWS_WITH(catalog::find_idx(config, catalog::SourceRole::train),
                    ContainsSubstring("train-images-idx3-ubyte"));
  test::write_idx_pair(dir.path(), "t10k-", 3);
  CHECK(catalog::find_idx(config, catalog::SourceRole::eval).images.filename() == "t10k-images-idx3-ubyte");
  CHECK(catalog::find_idx(config, catalog::SourceRole::train_eval).images.filename() ==
        "t10k-images-idx3-ubyte");
  CHECK_THROWS_AS(catalog::find_idx(config, catalog::SourceRole::train), Error);
  test::write_idx_pair(dir.path(), "train-", 3);
  CHECK(catalog::find_idx(config, catalog::SourceRole::train_eval).labels.filename() ==
        "train-labels-idx1-ubyte");
  config.images = "a";
  CHECK_THROWS_WITH(catalog::find_idx(config, catalog::SourceRole::train), ContainsSubstring("`labels`"));
  config.labels = "b";
  CHECK(catalog::find_idx(config, catalog::SourceRole::train).labels == "b");
}
