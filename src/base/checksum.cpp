#include "base/checksum.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include <fcntl.h>
#include <zlib.h>

#include "base/file.h"

namespace ampctl {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;

}  // namespace

void Crc32::update(const void* data, size_t bytes) noexcept {
  // zlib takes a null pointer as a request for the initial value.
  if (bytes == 0) return;
  value_ = static_cast<uint32_t>(::crc32_z(value_, static_cast<const Bytef*>(data), bytes));
}

FileDigest digest_file(const std::filesystem::path& path) {
  const OpenedFile file = open_regular_file(path);
  // Only advice: it doubles the kernel's readahead where it is understood.
  ::posix_fadvise(file.fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  std::vector<std::byte> chunk(std::min<uint64_t>(kChunkBytes, file.size));
  Crc32 crc;
  for (uint64_t done = 0; done < file.size;) {
    const uint64_t bytes = std::min<uint64_t>(chunk.size(), file.size - done);
    read_exactly(file.fd, path, done, chunk.data(), bytes);
    crc.update(chunk.data(), bytes);
    done += bytes;
  }
  return {file.size, crc.value()};
}

std::string crc32_text(uint32_t value) {
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08x", value);
  return text.data();
}

}  // namespace ampctl
