// A file that only grows, a whole text at a time.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/file.h"

namespace ampctl::events {

/// Opened for appending (created with its folders when absent), closed with its scope. Not synced to the
/// disk at each append: what the kernel has is safe from the end of this process.
class AppendFile {
 public:
  /// Throws an environment error when the file cannot be opened.
  explicit AppendFile(std::filesystem::path path);

  /// Writes all of `text` with one write. Throws an environment error when that fails, leaving the file as it
  /// was before. When the file was deleted meanwhile, a new one is started with `first_text` and `text`, and
  /// that too is thrown, after the writing.
  void append(std::string_view text, std::string_view first_text = {});

  [[nodiscard]] bool empty() const;

 private:
  void open();
  [[nodiscard]] bool deleted() const;
  void write_whole(std::string_view text);

  std::filesystem::path path_;
  FileDescriptor fd_;
};

}  // namespace ampctl::events
