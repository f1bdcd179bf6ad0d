// Readers that close, stall or vanish: none of them may end or slow a run.
#include <array>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "channels.h"
#include "events/sinks.h"
#include "samples.h"
#include "support/catch.h"
#include "support/process.h"

namespace ampctl::events {
namespace {

using test::Channel;
using test::console_on;
using test::error_of;
using test::Pipe;
using test::sample_evaluation;
using test::sample_run;
using test::sample_step;
using test::Terminal;
using Clock = std::chrono::steady_clock;

constexpr size_t kMoreThanAnyBuffer = 20000;  // events: some megabytes of lines

template <class Action>
double seconds_of(const Action& action) {
  const auto start = Clock::now();
  action();
  return std::chrono::duration<double>(Clock::now() - start).count();
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

}  // namespace
}  // namespace ampctl::events
