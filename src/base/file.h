// Reading files over POSIX with errors that name the path, the system's reason and a remedy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "base/error.h"

namespace ampctl {

/// Owns a POSIX file descriptor; -1 is "none".
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) noexcept : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

/// A regular file opened for reading, with its size in bytes at that moment.
struct OpenedFile {
  FileDescriptor fd;
  uint64_t size = 0;
};

/// A read-only private mapping of a whole file. Touching it after the file has been truncated raises SIGBUS.
class FileMapping {
 public:
  FileMapping() = default;
  FileMapping(const OpenedFile& file, const std::filesystem::path& path);
  ~FileMapping();
  FileMapping(FileMapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  FileMapping& operator=(FileMapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  FileMapping(const FileMapping&) = delete;
  FileMapping& operator=(const FileMapping&) = delete;

  [[nodiscard]] const std::byte* data() const noexcept { return static_cast<const std::byte*>(data_); }

 private:
  void* data_ = nullptr;
  uint64_t size_ = 0;
};

/// The environment error for a failed system call: "cannot <action> '<path>': <reason>: <remedy>".
[[nodiscard]] Error file_error(const std::string& action, const std::filesystem::path& path,
                               int error_number);

/// Opens a regular file. Anything else (folder, FIFO, device) is an environment error and never blocks.
[[nodiscard]] OpenedFile open_regular_file(const std::filesystem::path& path);

/// Reads exactly `bytes` from `offset`; a file that ends earlier is an environment error.
void read_exactly(const FileDescriptor& fd, const std::filesystem::path& path, uint64_t offset,
                  void* destination, uint64_t bytes);

/// A whole file as text; one larger than `limit` bytes is an environment error.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path, uint64_t limit);

}  // namespace ampctl
