#include <cstdlib>
#include <string>

#include <sys/ioctl.h>

#include "channels.h"
#include "events/sinks.h"
#include "samples.h"
#include "support/catch.h"

namespace ampctl::events {
namespace {

using test::console_on;
using test::error_of;
using test::Pipe;
using test::sample_evaluation;
using test::sample_overflow;
using test::sample_run;
using test::sample_step;
using test::Terminal;

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
