// CRC-32 (ISO-HDLC, zlib's and gzip's polynomial), streaming.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace ampctl {

/// A checksum over bytes that arrive in pieces.
class Crc32 {
 public:
  void update(const void* data, size_t bytes) noexcept;
  [[nodiscard]] uint32_t value() const noexcept { return value_; }

 private:
  uint32_t value_ = 0;
};

/// Size and checksum of a file's content.
struct FileDigest {
  uint64_t bytes = 0;
  uint32_t crc32 = 0;
};

/// Reads a whole regular file in chunks. Throws environment errors.
[[nodiscard]] FileDigest digest_file(const std::filesystem::path& path);

/// Eight lower-case hexadecimal digits.
[[nodiscard]] std::string crc32_text(uint32_t value);

}  // namespace ampctl
