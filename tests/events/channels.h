// What a console can be connected to, with its other end in the test's hand.
#pragma once

#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>

#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "events/sinks.h"
#include "support/catch.h"

namespace ampctl::test {

/// Two descriptors, one for reading what the console writes to the other.
struct Channel {
  int reader = -1;
  int writer = -1;
  Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel() {
    close_reader();
    close_writer();
  }
  void close_reader() {
    if (reader >= 0) close(reader);
    reader = -1;
  }
  void close_writer() {
    if (writer >= 0) close(writer);
    writer = -1;
  }
  // All that comes, until nothing has come for a moment.
  std::string read_available() const {
    std::string text;
    std::array<char, 65536> buffer{};
    pollfd entry{reader, POLLIN, 0};
    constexpr int kMoment = 100;  // ms
    while (poll(&entry, 1, kMoment) > 0 && (entry.revents & POLLIN) != 0) {
      const auto n = read(reader, buffer.data(), buffer.size());
      if (n <= 0) break;
      text.append(buffer.data(), static_cast<size_t>(n));
    }
    return text;
  }
};

struct Pipe : Channel {
  Pipe() {
    std::array<int, 2> ends{};
    REQUIRE(pipe(ends.data()) == 0);
    reader = ends[0];
    writer = ends[1];
  }
};

/// A pseudo-terminal of a given width, with TERM set and NO_COLOR unset for its lifetime.
struct Terminal : Channel {
  explicit Terminal(unsigned short columns = 100) {
    winsize size{};
    size.ws_col = columns;
    size.ws_row = 24;
    REQUIRE(openpty(&reader, &writer, nullptr, nullptr, &size) == 0);
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
  }
  // The kernel acts on a typed character a little later.
  void type_stop_or_go(char c, bool takes_output) const {
    REQUIRE(write(reader, &c, 1) == 1);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    pollfd entry{writer, POLLOUT, 0};
    while ((poll(&entry, 1, 0) > 0) != takes_output && std::chrono::steady_clock::now() < deadline)
      usleep(1000);
    REQUIRE((poll(&entry, 1, 0) > 0) == takes_output);
  }
};

inline std::unique_ptr<events::EventSink> console_on(
    const Channel& channel, events::ProgressMode mode = events::ProgressMode::automatic) {
  return events::make_console({channel.writer, mode, events::Message::Level::info});
}

}  // namespace ampctl::test
