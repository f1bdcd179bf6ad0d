// Files and folders that survive a crash: data reaches the disk before the name that others look for does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/checksum.h"
#include "base/file.h"

namespace ampctl {

/// A file being written from its beginning, with its checksum. Destroyed before finish(), it is removed.
class DurableFile {
 public:
  /// Creates the file, emptying one of that name. `expected_bytes` is only for the message about a full disk.
  explicit DurableFile(std::filesystem::path path, uint64_t expected_bytes = 0);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void write(const void* data, uint64_t bytes);

  /// Flushes to the disk and closes. The name itself is durable only after sync_folder() of its folder.
  FileDigest finish();

 private:
  [[nodiscard]] Error failure(const std::string& action, int error_number) const;

  std::filesystem::path path_;
  uint64_t expected_bytes_;
  FileDescriptor fd_;
  FileDigest written_;
  Crc32 crc_;
  bool finished_ = false;
};

/// Replaces a file by another in one step: readers see the old content or the new, also after a crash.
void write_text_file(const std::filesystem::path& path, std::string_view text);

/// Creates a folder and its missing parents, durably. One that exists is fine.
void make_folders(const std::filesystem::path& path);

/// Renames within one file system; an empty or non-folder target is replaced. Durable after sync_folder().
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

/// Flushes a folder's entries (names created, renamed, removed in it) to the disk.
void sync_folder(const std::filesystem::path& folder);

/// Removes a file, link or folder with all it holds; one that is absent is fine.
void remove_tree(const std::filesystem::path& path);

}  // namespace ampctl
