// One run a folder at a time: an advisory lock that the kernel releases however its holder ends.
#pragma once

#include <filesystem>

#include "base/file.h"

namespace ampctl {

/// Holds `<folder>/.lock` (flock) for its lifetime; the file names the holder's process and host. Held by
/// another process: an environment error that names it and the folder. Not inherited by programs started.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(FolderLock&&) noexcept = default;
  FolderLock& operator=(FolderLock&&) noexcept = default;
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  FileDescriptor fd_;
};

}  // namespace ampctl
