#include "catalog/idx.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include <zlib.h>

#include "base/error.h"

namespace fs = std::filesystem;

namespace ampctl::catalog {
namespace {

constexpr size_t kMagicBytes = 4;
constexpr size_t kDimBytes = 4;
constexpr uint8_t kUnsignedByte = 0x08;
constexpr int64_t kMaxElements = int64_t{1} << 40;
// Deflate cannot expand data by more than 1032 to 1.
constexpr int64_t kMaxDeflateRatio = 1032;
constexpr unsigned kReadBuffer = 1U << 17;
constexpr int64_t kChunk = int64_t{1} << 24;

Error bad(const fs::path& file, const std::string& what) {
  return environment_error("IDX file " + file.string() + ": " + what);
}

/// A file read through zlib, which passes files that are not gzip through unchanged.
class ByteReader {
 public:
  explicit ByteReader(const fs::path& file) : file_(file) {
    std::error_code error;
    const fs::file_status status = fs::status(file, error);
    if (status.type() == fs::file_type::not_found) throw bad(file, "does not exist; check the data section");
    if (!fs::is_regular_file(status)) throw bad(file, "is not a regular file; check the data section");
    size_on_disk_ = static_cast<int64_t>(fs::file_size(file, error));
    errno = 0;
    handle_ = gzopen(file.c_str(), "rb");
    if (handle_ == nullptr) {
      throw bad(file, std::string("cannot be opened: ") + std::strerror(errno != 0 ? errno : ENOMEM));
    }
    gzbuffer(handle_, kReadBuffer);
  }
  ~ByteReader() { gzclose(handle_); }
  ByteReader(const ByteReader&) = delete;
  ByteReader& operator=(const ByteReader&) = delete;

  /// Returns how many bytes came; fewer than asked for only at the file's end.
  int64_t read(uint8_t* into, int64_t count) {
    int64_t done = 0;
    while (done < count) {
      const auto want = static_cast<unsigned>(std::min(count - done, kChunk));
      const int got = gzread(handle_, into + done, want);
      if (got < 0) fail();
      if (got == 0) break;
      done += got;
    }
    if (done < count) {
      int code = Z_OK;
      gzerror(handle_, &code);
      if (code != Z_OK && code != Z_STREAM_END) fail();
    }
    return done;
  }

  /// The most bytes that the file can unpack to.
  int64_t capacity() { return gzdirect(handle_) != 0 ? size_on_disk_ : size_on_disk_ * kMaxDeflateRatio; }

 private:
  [[noreturn]] void fail() {
    int code = Z_OK;
    const char* text = gzerror(handle_, &code);
    const std::string reason = code == Z_ERRNO ? std::strerror(errno) : std::string(text);
    throw bad(file_, "is damaged or cannot be read (" + reason + "); fetch it again");
  }

  const fs::path& file_;
  gzFile handle_ = nullptr;
  int64_t size_on_disk_ = 0;
};

int64_t product(const std::vector<int64_t>& dims) {
  int64_t elements = 1;
  for (const int64_t dim : dims) elements *= dim;
  return elements;
}

std::vector<int64_t> read_dims(ByteReader& reader, const fs::path& file, size_t rank) {
  std::array<uint8_t, kMagicBytes> magic{};
  const bool whole = reader.read(magic.data(), kMagicBytes) == static_cast<int64_t>(kMagicBytes);
  if (!whole || magic[0] != 0 || magic[1] != 0) {
    throw bad(file, "is not an IDX file (expected the bytes 00 00 08 at its beginning, plain or in gzip)");
  }
  if (magic[2] != kUnsignedByte) {
    throw bad(file, "expected elements of type unsigned byte (8), found type " + std::to_string(magic[2]));
  }
  if (magic[3] != rank) {
    throw bad(file, "expected " + std::to_string(rank) + " dimensions (" +
                        (rank == 1 ? "labels" : "images, height, width") + "), found " +
                        std::to_string(magic[3]));
  }
  std::vector<int64_t> dims(rank);
  int64_t elements = 1;
  for (auto& dim : dims) {
    std::array<uint8_t, kDimBytes> bytes{};
    if (reader.read(bytes.data(), kDimBytes) != static_cast<int64_t>(kDimBytes)) {
      throw bad(file, "ends inside its header; fetch it again");
    }
    for (const uint8_t byte : bytes) dim = dim * 256 + byte;
    if (dim == 0) throw bad(file, "holds no elements (a dimension of its header is 0)");
    // Each factor is under 2^32 and the product so far at most 2^40, so this cannot wrap round to a small
    // number unnoticed.
    if (elements > kMaxElements / dim)
      throw bad(file, "its header asks for more elements than a file can hold");
    elements *= dim;
  }
  const int64_t capacity = reader.capacity();
  if (elements > capacity) {
    throw bad(file, "its header promises " + std::to_string(elements) +
                        " elements, but the file cannot hold more than " + std::to_string(capacity) +
                        "; it is truncated or damaged, fetch it again");
  }
  return dims;
}

std::vector<std::string_view> prefixes(SourceRole role) {
  switch (role) {
    case SourceRole::train:
      return {"train-", ""};
    case SourceRole::eval:
      return {"t10k-", "test-", ""};
    case SourceRole::train_eval:
      break;
  }
  return {"train-", "", "t10k-", "test-"};
}

fs::path find_one(const fs::path& folder, const std::string& stem, const std::string& rank) {
  for (const char* separator : {"-idx", ".idx"}) {
    for (const char* suffix : {"", ".gz"}) {
      fs::path candidate = folder / (stem + separator + rank + "-ubyte" + suffix);
      std::error_code error;
      if (fs::exists(candidate, error)) return candidate;
    }
  }
  return {};
}

}  // namespace

IdxPaths find_idx(const Source& source, SourceRole role) {
  if (source.images && source.labels) return {*source.images, *source.labels};
  if (source.images || source.labels) {
    throw usage_error("data: format idx needs both `images` and `labels`, or `path` alone; found only `" +
                      std::string(source.images ? "images" : "labels") + "`");
  }
  if (!source.path) throw usage_error("data: format idx needs `path`, or `images` and `labels`");
  const fs::path folder = *source.path;
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    throw environment_error("IDX folder " + folder.string() +
                            (fs::exists(folder, error) ? ": is not a folder" : ": does not exist") +
                            "; check `path` in the data section");
  }
  std::string looked_for;
  for (const std::string_view prefix : prefixes(role)) {
    const std::string stem(prefix);
    IdxPaths found{find_one(folder, stem + "images", "3"), find_one(folder, stem + "labels", "1")};
    if (!found.images.empty() && !found.labels.empty()) return found;
    looked_for +=
        (looked_for.empty() ? "" : ", ") + stem + "images-idx3-ubyte with " + stem + "labels-idx1-ubyte";
  }
  throw environment_error("IDX folder " + folder.string() + ": expected " + looked_for +
                          " (plain or .gz); name the files with `images` and `labels` otherwise");
}

std::vector<int64_t> read_idx_dims(const fs::path& file, size_t rank) {
  ByteReader reader(file);
  return read_dims(reader, file, rank);
}

IdxArray read_idx(const fs::path& file, size_t rank) {
  ByteReader reader(file);
  IdxArray array;
  array.dims = read_dims(reader, file, rank);
  const int64_t expected = product(array.dims);
  int64_t have = 0;
  while (have < expected) {
    // Grown as the bytes come, so that a header alone allocates next to nothing.
    const int64_t want = std::min(expected - have, std::max(kChunk, have));
    array.values.resize(static_cast<size_t>(have + want));
    const int64_t got = reader.read(array.values.data() + have, want);
    have += got;
    if (got < want) break;
  }
  if (have < expected) {
    throw bad(file, "expected " + std::to_string(expected) + " elements, found only " + std::to_string(have) +
                        "; it is truncated, fetch it again");
  }
  uint8_t beyond = 0;
  if (reader.read(&beyond, 1) != 0) {
    throw bad(file, "is longer than the " + std::to_string(expected) + " elements that its header promises");
  }
  return array;
}

}  // namespace ampctl::catalog
