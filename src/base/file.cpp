#include "base/file.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ampctl {
namespace {

const char* remedy(int error_number) {
  switch (error_number) {
    case EACCES:
    case EPERM:
      return "check its permissions and those of its folder, or choose another folder";
    case EROFS:
      return "the file system is mounted read-only: choose another folder";
    case EIO:
      return "the storage reports a fault: look at the system log, and choose another disk";
    case ENOENT:
    case ENOTDIR:
      return "check the path";
    case ENOSPC:
    case EDQUOT:
      return "free some space, or choose another disk";
    case EMFILE:
    case ENFILE:
      return "raise the limit on open files (ulimit -n)";
    default:
      return "check the path and the file system";
  }
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

FileMapping::FileMapping(const OpenedFile& file, const std::filesystem::path& path) : size_(file.size) {
  if (size_ == 0) return;
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd.get(), 0);
  if (mapped == MAP_FAILED) throw file_error("map", path, errno);
  data_ = mapped;
}

FileMapping::~FileMapping() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Error file_error(const std::string& action, const std::filesystem::path& path, int error_number) {
  return environment_error("cannot " + action + " '" + path.string() + "': " +
                           std::generic_category().message(error_number) + ": " + remedy(error_number));
}

OpenedFile open_regular_file(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a FIFO would wait for a writer otherwise; it means nothing for regular files.
  OpenedFile file{FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK))};
  if (file.fd.get() < 0) throw file_error("open", path, errno);
  struct stat status {};
  if (::fstat(file.fd.get(), &status) != 0) throw file_error("look at", path, errno);
  if (!S_ISREG(status.st_mode)) {
    throw environment_error("cannot read '" + path.string() + "': it is not a regular file: check the path");
  }
  file.size = static_cast<uint64_t>(status.st_size);
  return file;
}

void read_exactly(const FileDescriptor& fd, const std::filesystem::path& path, uint64_t offset,
                  void* destination, uint64_t bytes) {
  auto* into = static_cast<std::byte*>(destination);
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t n = ::pread(fd.get(), into + done, bytes - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw file_error("read", path, errno);
    if (n == 0) {
      throw environment_error("cannot read '" + path.string() + "': it ends at byte " +
                              std::to_string(offset + done) + " where " + std::to_string(offset + bytes) +
                              " bytes were expected: it was cut short; use another copy");
    }
    done += static_cast<uint64_t>(n);
  }
}

std::string read_text_file(const std::filesystem::path& path, uint64_t limit) {
  const OpenedFile file = open_regular_file(path);
  if (file.size > limit) {
    throw environment_error("cannot read '" + path.string() + "': it has " + std::to_string(file.size) +
                            " bytes where at most " + std::to_string(limit) +
                            " were expected: it is not a file of this kind");
  }
  std::string text(file.size, '\0');
  read_exactly(file.fd, path, 0, text.data(), text.size());
  return text;
}

}  // namespace ampctl
