#include "base/file_lock.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/host_name.h"

namespace ampctl {
namespace {

constexpr mode_t kLockMode = 0666;

std::string this_process() { return "process " + std::to_string(::getpid()) + " on host " + host_name(); }

// What the holder wrote; it may not have come to that yet, and the file may hold anything.
std::string holder(const FileDescriptor& fd) {
  std::array<char, 512> text{};
  const ssize_t n = ::pread(fd.get(), text.data(), text.size(), 0);
  std::string line(text.data(), n > 0 ? static_cast<size_t>(n) : 0);
  line.erase(std::find_if(line.begin(), line.end(), [](char c) { return c < ' ' || c > '~'; }), line.end());
  return line.empty() ? "another process" : line;
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / ".lock";
  fd_ = FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kLockMode));
  if (fd_.get() < 0) throw file_error("create the lock", path, errno);
  if (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) throw file_error("lock", path, errno);
    throw environment_error("the folder '" + folder.string() + "' is in use by " + holder(fd_) +
                            ": wait for it to end, stop it, or choose another output folder");
  }
  const std::string text = this_process() + "\n";
  if (::ftruncate(fd_.get(), 0) != 0 ||
      ::pwrite(fd_.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    throw file_error("write", path, errno);
  }
}

FolderLock::~FolderLock() {
  // The file stays: removing it would let a second process lock a new file while a third holds the old one.
  if (fd_.get() < 0) return;
  [[maybe_unused]] const int only_a_courtesy = ::ftruncate(fd_.get(), 0);
}

}  // namespace ampctl
