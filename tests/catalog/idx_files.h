// IDX files made for tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <zlib.h>

namespace ampctl::test {

inline void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Header and elements of an IDX file, whatever the dimensions promise.
inline std::string idx_bytes(const std::vector<uint32_t>& dims, const std::string& elements, char type = 8) {
  std::string bytes{'\0', '\0', type, static_cast<char>(dims.size())};
  for (const uint32_t dim : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(dim >> shift);
  }
  return bytes + elements;
}

inline void write_gzip(const std::filesystem::path& path, const std::string& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

/// n images of 2x3 and labels 0, 1, 2, 0, … under their usual names.
inline void write_idx_pair(const std::filesystem::path& folder, const std::string& prefix, uint32_t n,
                           char classes = 3) {
  std::string labels;
  for (uint32_t i = 0; i < n; ++i) labels += static_cast<char>(i % static_cast<uint32_t>(classes));
  write_file(folder / (prefix + "images-idx3-ubyte"), idx_bytes({n, 2, 3}, std::string(n * 6, 'x')));
  write_file(folder / (prefix + "labels-idx1-ubyte"), idx_bytes({n}, labels));
}

}  // namespace ampctl::test
