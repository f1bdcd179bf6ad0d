// What the launcher has to say: on standard error, and in a file that outlives the terminal.
#pragma once

#include <filesystem>
#include <string>

#include "base/file.h"

namespace ampctl::launch {

class Journal {
 public:
  /// `file` is appended to; `quiet`: notes go there alone. Throws an environment error when it cannot be
  /// opened.
  explicit Journal(const std::filesystem::path& file, bool quiet = false);

  /// A line for people and the file.
  void note(const std::string& text) const;
  /// The same, marked as an error.
  void error(const std::string& text) const;
  /// For the file alone.
  void record(const std::string& text) const;

 private:
  FileDescriptor file_;
  bool quiet_;
};

}  // namespace ampctl::launch
