#include "launch/console.h"

#include <algorithm>
#include <cerrno>
#include <climits>

#include <poll.h>
#include <unistd.h>

namespace ampctl::launch {

std::size_t write_now(int fd, std::string_view text) {
  std::size_t done = 0;
  while (done < text.size()) {
    pollfd ready{fd, POLLOUT, 0};
    if (poll(&ready, 1, 0) == 0) return done;
    // A pipe that is ready takes this much without waiting.
    const std::size_t part = std::min<std::size_t>(text.size() - done, PIPE_BUF);
    const ssize_t count = write(fd, text.data() + done, part);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return done;
    if (count < 0) return text.size();
    done += static_cast<std::size_t>(count);
  }
  return done;
}

}  // namespace ampctl::launch
