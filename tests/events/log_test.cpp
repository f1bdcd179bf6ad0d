#include <regex>
#include <string>

#include "events/sinks.h"
#include "samples.h"
#include "support/catch.h"
#include "support/process.h"

namespace ampctl::events {
namespace {

TEST_CASE("train.log gives every line its time and level") {
  const test::TempDir dir;
  const auto path = dir.path() / "train.log";
  const auto sink = make_log(path);
  sink->on_event(test::sample_run());
  sink->on_event(test::sample_step(45));
  sink->on_event(Message{Message::Level::warning, "two\nlines"});
  sink->on_event(Message{Message::Level::error, "bad"});
  sink->on_event(Progress{"evaluating", 1, 2});
  const auto lines = test::read_lines(path);
  REQUIRE(lines.size() == 7);
  const std::regex stamped(R"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d{4} (INFO|WARNING|ERROR) .*)");
  for (const auto& line : lines) CHECK(std::regex_match(line, stamped));
  const auto rest = [&](size_t i) { return lines[i].substr(25); };
  CHECK(rest(0) == "INFO plan: 450 steps");
  CHECK(rest(1) == "INFO lr: 0.1");
  CHECK(rest(3).rfind("INFO epoch 1/10  step 45/450 (10.0%)", 0) == 0);
  CHECK(rest(4) == "WARNING two");
  CHECK(rest(5) == "WARNING lines");
  CHECK(rest(6) == "ERROR bad");
}

TEST_CASE("train.log leaves out messages below its level and keeps what the run does") {
  const test::TempDir dir;
  const auto path = dir.path() / "train.log";
  const auto sink = make_log(path, Message::Level::warning);
  sink->on_event(Message{Message::Level::info, "chatter"});
  sink->on_event(test::sample_evaluation(45));
  CHECK(test::read_lines(path).size() == 1);
}

}  // namespace
}  // namespace ampctl::events
