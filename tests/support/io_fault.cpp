// Preloaded into a program under test (LD_PRELOAD), this counts the calls that change files and disturbs
// one of them. Descriptors 0 to 2 are left alone. Environment:
//   AMPCTL_IO_FAULT=<n>:<what>  the n-th such call, counted from 1:
//     kill-before, kill    the process gets SIGKILL before or right after it
//     torn                 a write stores half of its bytes, then the process gets SIGKILL
//     short, eintr         a write stores half of its bytes; a write fails with EINTR
//     enospc, eio          it fails with that error
//     full                 from it on, whatever needs space fails with ENOSPC
//     gone                 from it on, everything fails with EIO
//   AMPCTL_IO_NO_EXCHANGE=1     renameat2 with flags fails with EINVAL, as on file systems without it
//   AMPCTL_IO_TRACE=<file>      one line a call is appended there: "<operation> <path> [<path>]"
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

struct Fault {
  long at = 0;
  std::string what;
};

Fault wanted_fault() {
  Fault fault;
  const char* text = std::getenv("AMPCTL_IO_FAULT");
  const char* colon = text != nullptr ? std::strchr(text, ':') : nullptr;
  if (colon != nullptr) {
    fault.at = std::strtol(text, nullptr, 10);
    fault.what = colon + 1;
  }
  return fault;
}

const Fault& fault() {
  static const Fault wanted = wanted_fault();
  return wanted;
}

void trace(const std::string& line) {
  const char* file = std::getenv("AMPCTL_IO_TRACE");
  if (file == nullptr) return;
  const long fd = syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  syscall(SYS_write, fd, (line + "\n").c_str(), line.size() + 1);
  syscall(SYS_close, fd);
}

std::string path_of(int fd) {
  char path[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t n = readlink(link.c_str(), path, sizeof path);
  return std::string(path, n > 0 ? static_cast<size_t>(n) : 0);
}

[[noreturn]] void die() {
  syscall(SYS_kill, getpid(), SIGKILL);
  for (;;) pause();
}

int failed(int error) {
  errno = error;
  return -1;
}

enum class Then { proceed, fail, die_after, half, half_and_die };

// Counts a call and decides what becomes of it; errno is set where it is to fail.
Then decide(const std::string& operation, bool needs_space, bool writes) {
  static long calls = 0;
  ++calls;
  trace(operation);
  const auto& [at, what] = fault();
  if (at == 0 || calls < at) return Then::proceed;
  if (what == "gone") errno = EIO;
  if (what == "full") errno = ENOSPC;
  if (what == "gone" || (what == "full" && needs_space)) return Then::fail;
  if (calls > at) return Then::proceed;
  if (what == "kill-before") die();
  if (what == "kill") return Then::die_after;
  if (what == "enospc" || what == "eio" || (what == "eintr" && writes)) {
    errno = what == "enospc" ? ENOSPC : what == "eio" ? EIO : EINTR;
    return Then::fail;
  }
  if (what == "torn" && writes) return Then::half_and_die;
  return what == "short" && writes ? Then::half : Then::proceed;
}

template <typename Call>
int disturbed(const std::string& operation, bool needs_space, Call&& call) {
  const Then then = decide(operation, needs_space, false);
  if (then == Then::fail) return -1;
  const long result = call();
  if (then == Then::die_after) die();
  return static_cast<int>(result);
}

// `call(bytes)` writes at most so many bytes.
template <typename Call>
ssize_t disturbed_write(int fd, size_t bytes, Call&& call) {
  if (fd <= STDERR_FILENO) return call(bytes);
  const Then then = decide("write " + path_of(fd), true, true);
  if (then == Then::fail) return -1;
  const bool half = then == Then::half || then == Then::half_and_die;
  const long result = call(half && bytes > 1 ? bytes / 2 : bytes);
  if (then == Then::die_after || then == Then::half_and_die) die();
  return result;
}

int disturbed_open(int folder, const char* path, int flags, mode_t mode) {
  const auto call = [&] { return syscall(SYS_openat, folder, path, flags, mode); };
  if ((flags & O_CREAT) == 0) return static_cast<int>(call());
  return disturbed(std::string("create ") + path, true, call);
}

mode_t mode_argument(int flags, va_list arguments) {
  return (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* data, size_t bytes) {
  return disturbed_write(fd, bytes, [&](size_t n) { return syscall(SYS_write, fd, data, n); });
}

ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  return disturbed_write(fd, bytes, [&](size_t n) { return syscall(SYS_pwrite64, fd, data, n, offset); });
}

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_argument(flags, arguments);
  va_end(arguments);
  return disturbed_open(AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_argument(flags, arguments);
  va_end(arguments);
  return disturbed_open(folder, path, flags, mode);
}

int fsync(int fd) {
  return disturbed("fsync " + path_of(fd), true, [&] { return syscall(SYS_fsync, fd); });
}

int fdatasync(int fd) {
  return disturbed("fsync " + path_of(fd), true, [&] { return syscall(SYS_fdatasync, fd); });
}

int ftruncate(int fd, off_t size) noexcept {
  return disturbed("ftruncate " + path_of(fd), false, [&] { return syscall(SYS_ftruncate, fd, size); });
}

int rename(const char* from, const char* to) noexcept {
  return disturbed(std::string("rename ") + from + " " + to, false,
                   [&] { return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0); });
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  if (flags != 0 && std::getenv("AMPCTL_IO_NO_EXCHANGE") != nullptr) return failed(EINVAL);
  return disturbed(std::string("exchange ") + from + " " + to, false,
                   [&] { return syscall(SYS_renameat2, from_folder, from, to_folder, to, flags); });
}

int symlink(const char* target, const char* link) noexcept {
  return disturbed(std::string("symlink ") + target + " " + link, true,
                   [&] { return syscall(SYS_symlinkat, target, AT_FDCWD, link); });
}

int unlink(const char* path) noexcept {
  return disturbed(std::string("unlink ") + path, false,
                   [&] { return syscall(SYS_unlinkat, AT_FDCWD, path, 0); });
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  return disturbed(std::string("unlink ") + path, false,
                   [&] { return syscall(SYS_unlinkat, folder, path, flags); });
}

int rmdir(const char* path) noexcept {
  return disturbed(std::string("rmdir ") + path, false,
                   [&] { return syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR); });
}

int mkdir(const char* path, mode_t mode) noexcept {
  return disturbed(std::string("mkdir ") + path, true,
                   [&] { return syscall(SYS_mkdirat, AT_FDCWD, path, mode); });
}

}  // extern "C"
