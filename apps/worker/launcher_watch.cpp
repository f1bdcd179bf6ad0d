#include "launcher_watch.h"

#include <array>
#include <cerrno>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"

namespace ampctl::worker {

LauncherWatch::LauncherWatch(int descriptor, std::function<void()> on_gone)
    : pipe_(descriptor), quit_(eventfd(0, EFD_CLOEXEC)) {
  if (quit_.get() < 0) throw environment_error("could not make an event descriptor (eventfd)");
  thread_ = std::thread([pipe = pipe_.get(), quit = quit_.get(), on_gone = std::move(on_gone)] {
    std::array<pollfd, 2> waited{{{pipe, POLLIN, 0}, {quit, POLLIN, 0}}};
    while (poll(waited.data(), waited.size(), -1) < 0 && errno == EINTR) {
    }
    // Nothing is ever written into the pipe: whatever happens to it is its end.
    if (waited[1].revents == 0 && waited[0].revents != 0) on_gone();
  });
}

LauncherWatch::~LauncherWatch() {
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = write(quit_.get(), &one, sizeof one);
  thread_.join();
}

}  // namespace ampctl::worker
