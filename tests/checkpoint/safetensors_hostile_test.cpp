#include <chrono>

#include <sys/stat.h>
#include <unistd.h>

#include "example.h"
#include "support/catch.h"
#include "support/process.h"

namespace {

using namespace ampctl;
using test::contains;
namespace fs = std::filesystem;

std::string length_bytes(uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>((length >> (8 * i)) & 0xff);
  return bytes;
}

std::string file_of(std::string header, size_t data_bytes) {
  header.append((8 - header.size() % 8) % 8, ' ');
  return length_bytes(header.size()) + header + std::string(data_bytes, '\1');
}

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}";
}

std::string refusal(const fs::path& path) {
  return test::error_of([&] { const checkpoint::SafetensorsFile file(path); });
}

struct Hostile {
  const char* what;
  std::string bytes;
  const char* message;
};

const std::vector<Hostile>& hostile_files() {
  const std::string good = tensor("a", "F32", "[2]", "[0,8]");
  static const std::vector<Hostile> files{
      {"empty", "", "it has only 0 bytes"},
      {"shorter than the length", "1234567", "it has only 7 bytes"},
      {"length of 2^64-1", length_bytes(~uint64_t{0}) + "{}", "claims 18446744073709551615 bytes"},
      {"length of 2^63", length_bytes(uint64_t{1} << 63) + "{}", "claims 9223372036854775808 bytes"},
      {"length beyond the file", length_bytes(1000) + "{}", "claims 1000 bytes of 10"},
      {"no header", length_bytes(0), "does not start with '{'"},
      {"a pickle", length_bytes(4) + "\x80\x02}q", "does not start with '{'"},
      {"not JSON", file_of("{hello}", 0), "not valid JSON at byte"},
      {"a list", file_of("[]", 0), "does not start with '{'"},
      {"text after the object", file_of("{} {}", 0), "not valid JSON"},
      {"not UTF-8", file_of("{\"\xff\":1}", 0), "not valid JSON"},
      {"deep lists", file_of("{\"a\":" + std::string(1 << 20, '[') + "}", 0),
       "a list is not expected at 'a'"},
      {"deep objects", file_of(R"({"a":{"shape":{"a":{)", 0), "an object is not expected at 'shape'"},
      {"a number for a tensor", file_of(R"({"a":1})", 0), "a number is not expected at 'a'"},
      {"a missing key", file_of(R"({"a":{"dtype":"F32","shape":[]}})", 4), "is missing"},
      {"an unknown key", file_of(R"({"a":{"dtyp":"F32"}})", 0), "unknown key 'dtyp'"},
      {"a key twice", file_of(R"({"a":{"dtype":"F32","dtype":"F64"}})", 0), "'dtype' appears twice"},
      {"a name twice", file_of("{" + good + "," + good + "}", 8), "this name appears twice"},
      {"metadata twice", file_of(R"({"__metadata__":{},"__metadata__":{}})", 0),
       "'__metadata__' appears twice"},
      {"metadata that is no text", file_of(R"({"__metadata__":{"a":1}})", 0),
       "a number is not expected at 'a'"},
      {"metadata's key twice", file_of(R"({"__metadata__":{"a":"b","a":"c"}})", 0), "a key twice: 'a'"},
      {"a negative dimension", file_of("{" + tensor("a", "F32", "[-2]", "[0,8]") + "}", 8),
       "a negative number"},
      {"a fraction", file_of("{" + tensor("a", "F32", "[2.0]", "[0,8]") + "}", 8), "no whole number"},
      {"a dimension of 2^63", file_of("{" + tensor("a", "F32", "[9223372036854775808]", "[0,8]") + "}", 8),
       "a dimension is too large"},
      {"a dimension of 2^64", file_of("{" + tensor("a", "F32", "[18446744073709551616]", "[0,8]") + "}", 8),
       "no whole number"},
      {"a product that overflows",
       file_of("{" + tensor("a", "U8", "[4294967296,4294967297]", "[0,8]") + "}", 8), "overflows"},
      {"a product that wraps to 8",
       file_of("{" + tensor("a", "F64", "[2305843009213693953]", "[0,8]") + "}", 8), "overflows"},
      {"an empty shape that overflows",
       file_of("{" + tensor("a", "U8", "[4294967296,4294967296,0]", "[0,0]") + "}", 0), "overflows"},
      {"100 dimensions",
       file_of("{" +
                   tensor(
                       "a", "U8",
                       "[1" +
                           [] {
                             std::string s;
                             for (int i = 0; i < 99; ++i) s += ",1";
                             return s;
                           }() +
                           "]",
                       "[0,1]") +
                   "}",
               1),
       "more than 64 dimensions"},
      {"a number beyond all types", file_of("{" + tensor("a", "F32", "[1e999]", "[0,8]") + "}", 8),
       "not valid JSON at byte"},
      {"an unknown dtype", file_of("{" + tensor("a", "F4", "[2]", "[0,8]") + "}", 8), "dtype 'F4'"},
      {"more bytes than the shape", file_of("{" + tensor("a", "F32", "[1]", "[0,8]") + "}", 8),
       "has 8 bytes where its shape and dtype need 4"},
      {"fewer bytes than the shape", file_of("{" + tensor("a", "F32", "[1000,1000]", "[0,4]") + "}", 4),
       "has 4 bytes where its shape and dtype need 4000000"},
      {"offsets beyond the file", file_of("{" + tensor("a", "F32", "[2]", "[8,16]") + "}", 8),
       "lies at bytes 8 to 16 of 8"},
      {"offsets of 2^64-1",
       file_of("{" + tensor("a", "U8", "[1]", "[18446744073709551614,18446744073709551615]") + "}", 8),
       "of 8"},
      {"offsets in reverse", file_of("{" + tensor("a", "F32", "[2]", "[8,0]") + "}", 8),
       "lies at bytes 8 to 0"},
      {"one offset", file_of("{" + tensor("a", "F32", "[2]", "[8]") + "}", 8), "needs two numbers"},
      {"three offsets", file_of("{" + tensor("a", "F32", "[2]", "[0,8,8]") + "}", 8),
       "more than two numbers"},
      {"an overlap", file_of("{" + good + "," + tensor("b", "F32", "[2]", "[4,12]") + "}", 12), "overlaps"},
      {"the same bytes twice", file_of("{" + good + "," + tensor("b", "F32", "[2]", "[0,8]") + "}", 8),
       "overlaps"},
      {"a gap", file_of("{" + good + "," + tensor("b", "F32", "[1]", "[12,16]") + "}", 16), "leaves a gap"},
      {"bytes at the end", file_of("{" + good + "}", 12), "end at byte 8 of 12"},
      {"unaligned",
       file_of("{" + tensor("a", "U8", "[1]", "[0,1]") + "," + tensor("b", "F32", "[1]", "[1,5]") + "}", 5),
       "no multiple of its element's 4"},
      {"a name that commands a terminal", file_of("{" + tensor("\\u001b[2J", "F4", "[2]", "[0,8]") + "}", 8),
       "'?[2J'"},
  };
  return files;
}

}  // namespace

TEST_CASE("hostile safetensors files end in an error that names the file and the fault") {
  const test::TempDir dir;
  const fs::path path = dir.path() / "hostile.safetensors";
  for (const auto& hostile : hostile_files()) {
    test::write_bytes(path, hostile.bytes);
    const std::string message = refusal(path);
    INFO(hostile.what << " says: " << message);
    CHECK(message.starts_with("3: "));
    CHECK(contains(message, path.string()));
    CHECK(contains(message, hostile.message));
    CHECK(message.size() < 1000);
  }
}

TEST_CASE(
    "a sound file cut at any length, or with any byte of its header changed, opens rightly or not at all") {
  const test::TempDir dir;
  const fs::path path = dir.path() / "file.safetensors";
  const std::string bytes = file_of(
      "{" + tensor("a", "F32", "[2]", "[0,8]") + "," + tensor("b", "U8", "[2,2]", "[8,12]") + "}", 12);
  for (size_t length = 0; length < bytes.size(); ++length) {
    test::write_bytes(path, bytes.substr(0, length));
    CHECK(refusal(path).starts_with("3: "));
  }
  size_t opened = 0;
  for (size_t at = 0; at < bytes.size() - 12; ++at) {
    for (const int change : {1, 2, 4, 8, 16, 32, 64, 128}) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ change);
      test::write_bytes(path, changed);
      const std::string message = refusal(path);
      opened += message.empty() ? 1 : 0;
      if (!message.empty()) CHECK(message.starts_with("3: "));
    }
  }
  CHECK(opened < bytes.size());  // other names and shapes of the same size are sound as well
}

TEST_CASE("a header of 100 MB of hostile JSON is refused within seconds") {
  const test::TempDir dir;
  const fs::path path = dir.path() / "large.safetensors";
  const auto start = std::chrono::steady_clock::now();
  test::write_bytes(path, file_of(R"({"a":{"shape":[)" +
                                      [] {
                                        std::string many;
                                        while (many.size() < 30'000'000) many += "1,";
                                        return many;
                                      }() +
                                      "1]}}",
                                  0));
  CHECK(contains(refusal(path), "more than 64 dimensions"));
  // NOLINTNEXTLINE(bugprone-string-constructor): a name as long as a header may be
  test::write_bytes(path, file_of("{\"" + std::string(99'000'000, 'a') + "\":1}", 0));
  const std::string message = refusal(path);
  CHECK(contains(message, "a number is not expected"));
  CHECK(message.size() < 1000);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
}

TEST_CASE("what is no regular file is refused without waiting") {
  const test::TempDir dir;
  const fs::path fifo = dir.path() / "fifo.safetensors";
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(contains(refusal(fifo), "not a regular file"));
  CHECK(contains(refusal(dir.path()), "not a regular file"));
  CHECK(contains(refusal("/dev/zero"), "not a regular file"));
  CHECK(contains(refusal(dir.path() / "absent"), "No such file or directory"));
}

TEST_CASE("a file that shrinks while it is open is an error, not a crash") {
  const test::TempDir dir;
  const fs::path path = dir.path() / "file.safetensors";
  const std::vector<float> values(100000, 1.0F);
  checkpoint::write_safetensors(path, {{"a", "F32", {100000}, values.data(), 400000}});
  const checkpoint::SafetensorsFile file(path);
  REQUIRE(truncate(path.c_str(), 4096) == 0);
  std::vector<float> into(100000);
  const std::string message = test::error_of([&] { file.read(file.tensors().at("a"), into.data()); });
  CHECK(contains(message, "3: cannot read '" + path.string() + "': it ends at byte 4096"));
}
