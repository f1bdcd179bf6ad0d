// `manifest.json`: what a checkpoint consists of, with sizes and checksums, its own included.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/error.h"

namespace ampctl::checkpoint {

struct ManifestFile {
  std::string name;
  FileDigest digest;
};

struct Manifest {
  int64_t format_version = 0;
  int64_t step = 0;
  std::string program_version;
  std::vector<ManifestFile> files;
};

/// A checkpoint whose manifest is intact and was written by a newer program: not damage, so no older
/// checkpoint may quietly take its place.
class NewerFormatError : public Error {
 public:
  using Error::Error;
};

/// The manifest's text, with its own CRC-32.
std::string manifest_text(const Manifest& manifest);

/// Reads and checks `<folder>/manifest.json`, not the files it names. Throws environment errors naming the
/// file and what is wrong; NewerFormatError for an intact manifest of a newer format.
Manifest read_manifest(const std::filesystem::path& folder);

/// The error for a checkpoint's file that is not as the manifest says.
Error damaged(const std::filesystem::path& path, const std::string& what);

}  // namespace ampctl::checkpoint
