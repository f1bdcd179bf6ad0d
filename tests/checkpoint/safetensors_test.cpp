#include <cstring>
#include <iostream>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "example.h"
#include "support/catch.h"
#include "support/process.h"
#include "support/skip.h"

namespace {

using namespace ampctl;
using nlohmann::json;
namespace fs = std::filesystem;

std::string hex(const std::byte* data, uint64_t bytes) {
  std::string text;
  char digits[3];
  for (uint64_t i = 0; i < bytes; ++i) {
    std::snprintf(digits, sizeof digits, "%02x", std::to_integer<unsigned>(data[i]));
    text += digits;
  }
  return text;
}

// {"<name>": {"dtype": ..., "shape": [...], "bytes": "<hexadecimal>"}}
json described(const checkpoint::SafetensorsFile& file) {
  json result = json::object();
  for (const auto& [name, tensor] : file.tensors()) {
    std::vector<std::byte> copy(tensor.bytes);
    file.read(tensor, copy.data());
    REQUIRE((copy.empty() || std::memcmp(copy.data(), tensor.data, copy.size()) == 0));
    result[name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"bytes", hex(copy.data(), copy.size())}};
  }
  return result;
}

constexpr uint64_t kHuge = uint64_t{5} << 30;

// A tensor of 5 GiB that takes no disk space, and a small one behind it that ends the file.
void write_sparse(const fs::path& path) {
  std::string header = R"({"huge":{"dtype":"F16","shape":[2684354560],"data_offsets":[0,5368709120]},)"
                       R"("last":{"dtype":"U8","shape":[4],"data_offsets":[5368709120,5368709124]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  std::string start(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(start.data(), &length, sizeof length);
  test::write_bytes(path, start + header);
  const int fd = open(path.c_str(), O_WRONLY);
  REQUIRE(pwrite(fd, "\1\2\3\4", 4, static_cast<off_t>(8 + header.size() + kHuge)) == 4);
  close(fd);
}

}  // namespace

TEST_CASE("offsets beyond 4 GiB are read where they are") {
  const test::TempDir dir;
  write_sparse(dir.path() / "sparse.safetensors");
  const checkpoint::SafetensorsFile file(dir.path() / "sparse.safetensors");
  CHECK(file.tensors().at("huge").bytes == kHuge);
  const auto& last = file.tensors().at("last");
  CHECK(last.data - file.tensors().at("huge").data == static_cast<std::ptrdiff_t>(kHuge));
  std::vector<unsigned char> values(4);
  file.read(last, values.data());
  CHECK(values == std::vector<unsigned char>{1, 2, 3, 4});
}

TEST_CASE("a file without tensors, empty tensors and scalars survive the round trip") {
  const test::TempDir dir;
  const fs::path path = dir.path() / "file.safetensors";
  checkpoint::write_safetensors(path, {});
  CHECK(checkpoint::SafetensorsFile(path).tensors().empty());
  CHECK(checkpoint::SafetensorsFile(path).metadata().empty());

  const double scalar = 2.5;
  checkpoint::write_safetensors(path,
                                {{"empty", "F32", {0}, nullptr, 0},
                                 {"scalar", "F64", {}, &scalar, 8},
                                 {"flat", "I8", {3, 0, 2}, nullptr, 0}},
                                {{"a \"quoted\" key", "line\nline \u00e9"}});
  const checkpoint::SafetensorsFile file(path);
  CHECK(file.tensors().at("empty").shape == std::vector<int64_t>{0});
  CHECK(file.tensors().at("flat").shape == std::vector<int64_t>{3, 0, 2});
  CHECK(file.tensors().at("scalar").shape.empty());
  double found = 0;
  file.read(file.tensors().at("scalar"), &found);
  CHECK(found == scalar);
  CHECK(file.metadata().at("a \"quoted\" key") == "line\nline \u00e9");
}

TEST_CASE("a moved file still reads") {
  const test::TempDir dir;
  const double scalar = 2.5;
  checkpoint::write_safetensors(dir.path() / "f", {{"x", "F64", {}, &scalar, 8}});
  checkpoint::SafetensorsFile first(dir.path() / "f");
  const checkpoint::SafetensorsFile second(std::move(first));
  double found = 0;
  std::memcpy(&found, second.tensors().at("x").data, sizeof found);
  CHECK(found == scalar);
}

TEST_CASE("Python reads and checks what is written here, and the other way round") {
  if (!test::python_has({"torch", "safetensors", "numpy"})) {
    return test::skip("Python has no torch and safetensors; scripts/test.sh installs them");
  }
  const test::TempDir dir;
  std::vector<unsigned char> raw(48);
  for (size_t i = 0; i < raw.size(); ++i) raw[i] = static_cast<unsigned char>(7 * i + 1);
  const std::vector<unsigned char> flags{0, 1, 1, 0};
  std::vector<checkpoint::TensorRef> tensors{{"flags", "BOOL", {2, 2}, flags.data(), 4},
                                             {"layer1.0.bn1.num_batches_tracked", "I64", {}, raw.data(), 8},
                                             {"empty", "F32", {0, 3}, nullptr, 0},
                                             {"name \u00e9 \"quoted\"", "F32", {1}, raw.data(), 4}};
  for (const char* dtype : {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8"}) {
    const uint64_t bytes = 6 * checkpoint::element_size(dtype);
    tensors.push_back({std::string("of ") + dtype, dtype, {3, 2}, raw.data(), bytes});
  }
  checkpoint::write_safetensors(dir.path() / "ours.safetensors", tensors,
                                {{"format", "pt"}, {"note", "\u00e9"}});
  checkpoint::write_safetensors(dir.path() / "none.safetensors", {});
  write_sparse(dir.path() / "sparse.safetensors");
  test::save_example(dir.path(), 1, 'a');

  const auto result =
      test::run({test::python(), (test::source_dir() / "tests/reference/safetensors_reference.py").string(),
                 dir.path().string()});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const json python = json::parse(result.out);
  const checkpoint::SafetensorsFile ours(dir.path() / "ours.safetensors");
  CHECK(python["ours"] == described(ours));
  CHECK(python["ours"].size() == tensors.size());
  CHECK(python["metadata"] == json(ours.metadata()));
  CHECK(python["none"] == json::object());
  CHECK(python["faults"] == json::array());
  CHECK(python["sparse_last"] == json{1, 2, 3, 4});

  const checkpoint::SafetensorsFile theirs(dir.path() / "theirs.safetensors");
  CHECK(python["theirs"] == described(theirs));
  CHECK(theirs.metadata() == checkpoint::Metadata{{"made by", "Python"}});
}
