// A checkpoint's folder while it is written: hidden under a temporary name, then published in one step.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/file.h"

namespace ampctl::checkpoint {

/// Created empty and locked against clean_leftovers() of other processes. Whatever lies under the temporary
/// name at the end of its scope is removed.
class TemporaryFolder {
 public:
  TemporaryFolder(const std::filesystem::path& checkpoints, int64_t step);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// Gives the folder its final name, durably; an older checkpoint of that step gets the temporary name. At
  /// every moment a complete folder of the step can be found, once there was one. On failure all is as
  /// before.
  std::filesystem::path publish();

  /// Removes the older checkpoint that publish() replaced, if there was one.
  void remove_replaced();

 private:
  void take_final_name();
  void give_back() noexcept;

  std::filesystem::path checkpoints_;
  std::filesystem::path path_;
  std::filesystem::path final_;
  std::filesystem::path replaced_;
  FileDescriptor lock_;
  bool replacing_ = false;
  bool exchanged_ = false;
};

/// Removes what dead processes left in the folder: torn saves, half-removed checkpoints, links not yet
/// renamed. A checkpoint caught between the two renames of a replacement gets its name back.
void clean_leftovers(const std::filesystem::path& checkpoints);

}  // namespace ampctl::checkpoint
