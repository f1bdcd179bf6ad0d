#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include "base/error.h"
#include "events/sinks.h"
#include "samples.h"
#include "support/catch.h"
#include "support/process.h"

namespace ampctl::events {
namespace {

using test::error_of;
using test::sample_evaluation;
using test::sample_overflow;
using test::sample_run;
using test::sample_step;
using Clock = std::chrono::steady_clock;

constexpr size_t kMoreThanAnyBuffer = 20000;  // events: some megabytes of lines

/// Two descriptors, one for reading what the console writes to the other.
struct Channel {
  int reader = -1;
  int writer = -1;
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
    const auto deadline = Clock::now() + std::chrono::seconds(10);
    pollfd entry{writer, POLLOUT, 0};
    while ((poll(&entry, 1, 0) > 0) != takes_output && Clock::now() < deadline) usleep(1000);
    REQUIRE((poll(&entry, 1, 0) > 0) == takes_output);
  }
};

std::unique_ptr<EventSink> console_on(const Channel& channel, ProgressMode mode = ProgressMode::automatic) {
  return make_console({channel.writer, mode, Message::Level::info});
}

template <class Action>
double seconds_of(const Action& action) {
  const auto start = Clock::now();
  action();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

TEST_CASE("on a pipe every event is a plain line without escape sequences") {
  const Pipe pipe;
  const auto console = console_on(pipe);
  console->on_event(sample_run());
  console->on_event(sample_step(45));
  console->on_event(Progress{"evaluating", 1, 2});
  console->on_event(sample_evaluation(45));
  console->on_event(Message{Message::Level::warning, "careful"});
  const auto text = pipe.read_available();
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find('\r') == std::string::npos);
  const auto lines = test::split_lines(text);
  REQUIRE(lines.size() == 6);
  CHECK(lines[3].rfind("epoch 1/10  step 45/450 (10.0%)  loss 0.5000", 0) == 0);
  CHECK(lines[4].rfind("eval  epoch 1/10", 0) == 0);
  CHECK(lines[5] == "warning: careful");
}

TEST_CASE("on a terminal the step line is redrawn in place and other lines scroll above it") {
  const Terminal terminal;
  const auto console = console_on(terminal);
  console->on_event(sample_run());
  terminal.read_available();
  console->on_event(sample_step(45));
  CHECK(terminal.read_available() ==
        "\r\x1b[Kepoch 1/10  [=>              ]  step 45/450  10.0%  loss 0.5000  1.2k samples/s  skipped 2  "
        "eta "
        "41s");
  console->on_event(sample_evaluation(45));
  const auto text = terminal.read_available();
  CHECK(text.rfind("\r\x1b[Keval  epoch 1/10", 0) == 0);
  // The terminal turns \n into \r\n; the bar follows on the next line.
  CHECK(text.find("best so far\r\n\r\x1b[Kepoch 1/10  [") != std::string::npos);
  console->on_event(Progress{"evaluating", 1, 2});
  CHECK(terminal.read_available().rfind("\r\x1b[Kepoch 1/10  evaluating  [", 0) == 0);
  console->on_event(sample_evaluation(45));
  CHECK(terminal.read_available().find("step 45/450  10.0%") != std::string::npos);  // the step's bar again
  console->on_event(RunEnded{});
  const auto end = terminal.read_available();
  CHECK(end.rfind("\r\x1b[KDone: 0 of 450 steps", 0) == 0);
  CHECK(end.find("epoch") == std::string::npos);
}

TEST_CASE("a bar that is still there at the end is erased, so that what is printed next starts a line") {
  const Terminal terminal;
  auto console = console_on(terminal);
  console->on_event(Progress{"evaluating", 1, 2});
  CHECK(terminal.read_available().rfind("\r\x1b[Kevaluating  [", 0) == 0);
  console.reset();
  CHECK(terminal.read_available() == "\r\x1b[K");
}

TEST_CASE("a redraw never fills the last column, whatever the width") {
  for (const unsigned short columns : {20, 40, 80, 250}) {
    const Terminal terminal(columns);
    const auto console = console_on(terminal);
    console->on_event(sample_run());
    terminal.read_available();
    console->on_event(sample_step(45));
    const auto text = terminal.read_available();
    const std::string erase = "\r\x1b[K";
    REQUIRE(text.rfind(erase, 0) == 0);
    CHECK(text.size() - erase.size() < columns);
  }
}

TEST_CASE("a resized terminal is noticed at the next redraw") {
  const Terminal terminal(200);
  const auto console = console_on(terminal);
  console->on_event(sample_step(45));
  terminal.read_available();
  winsize size{24, 30, 0, 0};
  ioctl(terminal.writer, TIOCSWINSZ, &size);
  console->on_event(sample_step(46));
  CHECK(terminal.read_available().size() < 30 + 4);
}

TEST_CASE("colours are for terminals without NO_COLOR, bars not for dumb ones") {
  const Message warning{Message::Level::warning, "careful"};
  const Terminal terminal;
  console_on(terminal)->on_event(warning);
  CHECK(terminal.read_available() == "\x1b[33mwarning: careful\x1b[0m\r\n");
  setenv("NO_COLOR", "1", 1);
  console_on(terminal)->on_event(warning);
  CHECK(terminal.read_available() == "warning: careful\r\n");
  unsetenv("NO_COLOR");
  setenv("TERM", "dumb", 1);
  const auto console = console_on(terminal);
  console->on_event(sample_step(45));
  CHECK(terminal.read_available().rfind("epoch 1  step 45 ", 0) == 0);
}

TEST_CASE("mode none leaves warnings and the closing block") {
  const Pipe pipe;
  const auto console = console_on(pipe, ProgressMode::none);
  console->on_event(sample_run());
  console->on_event(sample_step(45));
  console->on_event(sample_evaluation(45));
  console->on_event(sample_overflow(46, 2.0));
  CHECK(pipe.read_available().empty());
  console->on_event(Message{Message::Level::warning, "careful"});
  console->on_event(RunEnded{});
  CHECK(pipe.read_available().rfind("warning: careful\nDone", 0) == 0);
}

TEST_CASE("a pipe closed by its reader is thrown once, raises no signal and ends nothing") {
  Pipe pipe;
  const auto handler = std::signal(SIGPIPE, SIG_DFL);  // would end this process
  const auto console = console_on(pipe);
  pipe.close_reader();
  CHECK(error_of([&] { console->on_event(sample_step(45)); }) ==
        "the output cannot be written: Broken pipe; nothing more is shown there");
  for (int i = 0; i < 10; ++i) CHECK_NOTHROW(console->on_event(sample_step(46)));
  CHECK_NOTHROW(console->on_event(RunEnded{}));
  sigset_t pending;
  sigpending(&pending);
  CHECK(sigismember(&pending, SIGPIPE) == 0);
  std::signal(SIGPIPE, handler);
}

TEST_CASE("a closed descriptor is thrown once") {
  Pipe pipe;
  const int closed = pipe.writer;
  pipe.close_writer();
  const auto console = make_console({closed, ProgressMode::automatic, Message::Level::info});
  CHECK(error_of([&] { console->on_event(sample_step(45)); }).find("Bad file descriptor") !=
        std::string::npos);
  CHECK_NOTHROW(console->on_event(sample_step(46)));
}

TEST_CASE("a vanished terminal is thrown once") {
  Terminal terminal;
  const auto console = console_on(terminal);
  console->on_event(sample_step(45));
  terminal.close_reader();
  CHECK(!error_of([&] { console->on_event(sample_step(46)); }).empty());
  CHECK_NOTHROW(console->on_event(sample_step(47)));
}

TEST_CASE("a full disk behind standard output is thrown each time") {
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  REQUIRE(full >= 0);
  {
    const auto console = make_console({full, ProgressMode::plain, Message::Level::info});
    CHECK_THROWS_AS(console->on_event(sample_step(45)), Error);
    CHECK_THROWS_AS(console->on_event(sample_step(46)), Error);
  }
  close(full);
}

TEST_CASE("a pipe that nobody reads holds nothing up, and the loss is told once there is room") {
  const Pipe pipe;
  auto console = console_on(pipe);
  const double seconds = seconds_of([&] {
    for (size_t i = 1; i <= kMoreThanAnyBuffer; ++i)
      console->on_event(sample_evaluation(static_cast<int64_t>(i)));
  });
  CHECK(seconds < 5.0);
  std::string text = pipe.read_available();
  for (int i = 0; i < 20; ++i) {
    console->on_event(sample_step(450));
    text += pipe.read_available();
  }
  const auto lines = test::split_lines(text);
  CHECK(lines.front().rfind("eval  epoch", 0) == 0);
  CHECK(text.find("outputs were lost: nothing read them]\n") != std::string::npos);
  CHECK(lines.back().rfind("epoch 10", 0) == 0);
  for (const auto& line : lines) CHECK((line[0] == 'e' || line[0] == '['));  // none is torn
}

TEST_CASE("a reader that comes back in time loses nothing") {
  const Pipe pipe;
  const auto console = console_on(pipe);
  constexpr int kLines = 2000;  // more than a pipe holds, fewer than the queue does
  for (int i = 1; i <= kLines; ++i)
    console->on_event(Message{Message::Level::info, "line " + std::string(90, 'x')});
  std::string text;
  for (int i = 0; i < 10; ++i) {
    text += pipe.read_available();
    console->on_event(Progress{});
    console->on_event(Message{Message::Level::info, "end"});
  }
  text += pipe.read_available();
  CHECK(test::split_lines(text).size() == kLines + 10);
}

TEST_CASE("the end of a run waits about a second for a reader that takes nothing, not longer") {
  const Pipe pipe;
  auto console = console_on(pipe);
  for (int i = 0; i < 2000; ++i) console->on_event(Message{Message::Level::info, std::string(90, 'x')});
  const double seconds = seconds_of([&] {
    console->on_event(RunEnded{});
    console.reset();
  });
  CHECK(seconds < 3.0);
}

TEST_CASE("a terminal stopped with Ctrl-S holds nothing up; after Ctrl-Q lines come, stale redraws do not") {
  const Terminal terminal;
  const auto console = console_on(terminal);
  console->on_event(sample_run());
  console->on_event(sample_step(1));
  terminal.read_available();
  terminal.type_stop_or_go('\x13', false);
  console->on_event(sample_evaluation(45));
  const double seconds = seconds_of([&] {
    for (size_t i = 0; i < kMoreThanAnyBuffer; ++i) console->on_event(sample_step(45));
  });
  CHECK(seconds < 5.0);
  terminal.type_stop_or_go('\x11', true);
  console->on_event(sample_step(450));
  const auto text = terminal.read_available();
  CHECK(text.find("eval  epoch 1/10") != std::string::npos);
  CHECK(text.find("step 450/450") != std::string::npos);
  CHECK(text.size() < 2000);
}

TEST_CASE("a terminal window that reads nothing holds nothing up") {
  const Terminal terminal;
  auto console = console_on(terminal);
  const double seconds = seconds_of([&] {
    for (size_t i = 0; i < kMoreThanAnyBuffer; ++i) {
      console->on_event(sample_step(45));
      console->on_event(sample_evaluation(45));
    }
  });
  CHECK(seconds < 10.0);
}

TEST_CASE("the given descriptor keeps its blocking mode") {
  const Pipe pipe;
  const auto console = console_on(pipe);
  console->on_event(sample_step(45));
  CHECK((fcntl(pipe.writer, F_GETFL) & O_NONBLOCK) == 0);
}

TEST_CASE("sockets and regular files work too") {
  Channel sockets;
  std::array<int, 2> ends{};
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0);
  sockets.reader = ends[0];
  sockets.writer = ends[1];
  const auto to_socket = console_on(sockets);
  const double seconds = seconds_of([&] {
    for (size_t i = 0; i < kMoreThanAnyBuffer; ++i) to_socket->on_event(sample_step(45));
  });
  CHECK(seconds < 5.0);
  CHECK(sockets.read_available().rfind("epoch 1  step 45", 0) == 0);

  const test::TempDir dir;
  const auto path = dir.path() / "out.txt";
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(write(file, "before\n", 7) == 7);
  make_console({file, ProgressMode::automatic, Message::Level::info})->on_event(sample_step(45));
  CHECK(write(file, "after\n", 6) == 6);
  close(file);
  const auto lines = test::read_lines(path);
  REQUIRE(lines.size() == 3);
  CHECK(lines[2] == "after");
}

TEST_CASE("modes and levels are read by name, others refused with the choices") {
  CHECK(parse_progress_mode("auto") == ProgressMode::automatic);
  CHECK(parse_progress_mode("bar") == ProgressMode::bar);
  CHECK(parse_progress_mode("plain") == ProgressMode::plain);
  CHECK(parse_progress_mode("none") == ProgressMode::none);
  CHECK(error_of([] { (void)parse_progress_mode("fancy"); }) ==
        "log.progress: expected auto, bar, plain or none, found 'fancy'");
  CHECK(parse_level("debug") == Message::Level::info);
  CHECK(parse_level("warn") == Message::Level::warning);
  CHECK(parse_level("error") == Message::Level::error);
  CHECK(error_of([] { (void)parse_level("loud"); }) ==
        "log.level: expected trace, debug, info, warn or error, found 'loud'");
}

}  // namespace
}  // namespace ampctl::events
