// Preloaded into a program under test (LD_PRELOAD): opening a file whose path ends with $AMPCTL_STALLED_FILE
// never returns, as on a network file system whose server is gone.
#include <cstdarg>
#include <cstdlib>
#include <string_view>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

void stall_if_wanted(const char* path) {
  const char* stalled = std::getenv("AMPCTL_STALLED_FILE");
  while (stalled != nullptr && std::string_view(path).ends_with(stalled)) pause();
}

int open_it(const char* path, int flags, mode_t mode) {
  stall_if_wanted(path);
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

}  // namespace

extern "C" int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = va_arg(arguments, mode_t);
  va_end(arguments);
  return open_it(path, flags, mode);
}

extern "C" int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = va_arg(arguments, mode_t);
  va_end(arguments);
  return open_it(path, flags, mode);
}
