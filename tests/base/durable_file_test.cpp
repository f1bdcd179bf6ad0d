#include "base/durable_file.h"

#include <fstream>
#include <vector>

#include <sys/stat.h>

#include "support/catch.h"
#include "support/process.h"

namespace {

using namespace ampctl;
namespace fs = std::filesystem;

std::string content(const fs::path& path) { return read_text_file(path, 1 << 20); }

size_t entries(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

template <typename Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::to_string(exit_code(error.kind())) + ": " + error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& piece) {
  return text.find(piece) != std::string::npos;
}

// The definition, a bit at a time: polynomial 0x04C11DB7 reflected, all ones before and after.
uint32_t crc_by_definition(const std::vector<unsigned char>& bytes) {
  uint32_t crc = 0xffffffff;
  for (const unsigned char byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320U : 0U);
  }
  return ~crc;
}

}  // namespace

TEST_CASE("the checksum is CRC-32 as published, for any pieces") {
  Crc32 crc;
  CHECK(crc32_text(crc.value()) == "00000000");
  crc.update("1234", 4);
  crc.update(nullptr, 0);
  crc.update("56789", 5);
  CHECK(crc32_text(crc.value()) == "cbf43926");  // the check value of CRC-32/ISO-HDLC
}

TEST_CASE("a file's digest spans all its chunks") {
  const test::TempDir dir;
  std::vector<unsigned char> bytes((3 << 20) + 17);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>((i * 2654435761U) >> 13);
  DurableFile file(dir.path() / "f");
  file.write(bytes.data(), 5);
  file.write(bytes.data() + 5, bytes.size() - 5);
  const FileDigest written = file.finish();
  const FileDigest read = digest_file(dir.path() / "f");
  CHECK(written.bytes == bytes.size());
  CHECK(written.crc32 == crc_by_definition(bytes));
  CHECK(read.bytes == bytes.size());
  CHECK(read.crc32 == written.crc32);
}

TEST_CASE("a file that was not finished is removed") {
  const test::TempDir dir;
  {
    DurableFile file(dir.path() / "f");
    file.write("abc", 3);
  }
  CHECK(entries(dir.path()) == 0);
}

TEST_CASE("a text file is replaced as a whole and nothing else stays") {
  const test::TempDir dir;
  write_text_file(dir.path() / "f", "old and longer");
  write_text_file(dir.path() / "f", "new");
  CHECK(content(dir.path() / "f") == "new");
  CHECK(entries(dir.path()) == 1);
  fs::create_directory(dir.path() / "folder");
  CHECK(contains(error_of([&] { write_text_file(dir.path() / "folder", "x"); }), "3: cannot rename"));
  CHECK(entries(dir.path()) == 2);
}

TEST_CASE("file errors name the path, the reason and a remedy") {
  const test::TempDir dir;
  CHECK(error_of([&] { DurableFile(dir.path() / "absent" / "f"); }) ==
        "3: cannot create '" + (dir.path() / "absent" / "f").string() +
            "': No such file or directory: check the path");
  CHECK(contains(error_of([] { make_folders("/proc/nothing/here"); }),
                 "cannot create the folder '/proc/nothing'"));
  std::ofstream(dir.path() / "file") << "abc";
  CHECK(contains(error_of([&] { make_folders(dir.path() / "file"); }), "cannot create the folder"));
  CHECK(contains(error_of([&] { make_folders(dir.path() / "file" / "sub"); }), "cannot create the folder"));
  CHECK(contains(error_of([&] { content(dir.path()); }), "not a regular file"));
  CHECK(contains(error_of([&] { return read_text_file(dir.path() / "file", 2); }),
                 "has 3 bytes where at most 2"));
  CHECK(contains(error_of([&] { sync_folder(dir.path() / "absent"); }), "No such file or directory"));
}

TEST_CASE("folders are made with their parents, and made again without complaint") {
  const test::TempDir dir;
  make_folders(dir.path() / "a" / "b" / "c");
  make_folders(dir.path() / "a" / "b" / "c" / "");
  CHECK(fs::is_directory(dir.path() / "a" / "b" / "c"));
  remove_tree(dir.path() / "a");
  remove_tree(dir.path() / "a");
  CHECK(entries(dir.path()) == 0);
}

TEST_CASE("reading past the end of a file is an error") {
  const test::TempDir dir;
  std::ofstream(dir.path() / "f") << "abc";
  const OpenedFile file = open_regular_file(dir.path() / "f");
  char bytes[8];
  const std::string message = error_of([&] { read_exactly(file.fd, dir.path() / "f", 1, bytes, 8); });
  CHECK(contains(message, "it ends at byte 3 where 9 bytes were expected"));
}
