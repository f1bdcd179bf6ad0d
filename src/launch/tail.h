// Repeats what is appended to files on the terminal, each line behind the name of its rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "base/file.h"

namespace ampctl::launch {

/// One file, from its present end on.
class Tail {
 public:
  /// `target` is the descriptor written to.
  Tail(std::filesystem::path path, std::string prefix, int target);

  /// Repeats whole lines that have come since; never waits for the target. Returns whether it was all.
  bool pump();
  /// At the end also a last line without its newline.
  void finish_line();
  /// Bytes that the target has not taken yet.
  [[nodiscard]] std::size_t waiting() const { return unsent_.size(); }

 private:
  void read_more();
  void end_line();

  std::filesystem::path path_;
  std::string prefix_;
  int target_;
  uint64_t offset_ = 0;
  bool more_ = false;
  std::string partial_;  ///< read, without a newline yet
  std::string unsent_;
};

/// Many files, read only when the system says that they have grown.
class Tails {
 public:
  Tails();

  void add(const std::filesystem::path& path, const std::string& prefix, int target);
  /// Readable when a file has grown; -1 where the system cannot tell, and files must be looked at.
  [[nodiscard]] int fd() const { return fd_.get(); }
  /// Repeats what has come in files that have grown, or in all. Returns whether it was all.
  bool pump();
  /// The rest of all files. Gives up on a target that takes nothing for a second.
  void finish();

 private:
  bool pump_all();
  void pump_while_taken();
  [[nodiscard]] std::size_t waiting() const;
  void collect_grown();

  FileDescriptor fd_;
  std::map<int, Tail> tails_;  ///< by inotify's descriptor of the file
  std::map<int, bool> grown_;  ///< those to look at
};

}  // namespace ampctl::launch
