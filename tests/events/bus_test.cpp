#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "events/event_sink.h"
#include "support/catch.h"

namespace ampctl::events {
namespace {

/// Notes the texts of messages and counts everything; throws from the event number `fails_from` on.
class Probe final : public EventSink {
 public:
  struct Record {
    std::vector<std::string> messages;
    int events = 0;
  };
  Probe(Record& record, int fails_from) : record_(record), fails_from_(fails_from) {}
  void on_event(const Event& event) override {
    const int number = record_.events++;
    if (const auto* message = std::get_if<Message>(&event)) record_.messages.push_back(message->text);
    if (number >= fails_from_) throw std::runtime_error("disk is full");
  }

 private:
  Record& record_;
  int fails_from_;
};

constexpr int kNever = 1000;

TEST_CASE("every event reaches every sink") {
  Probe::Record first;
  Probe::Record second;
  EventBus bus;
  bus.add("first", std::make_unique<Probe>(first, kNever));
  bus.add("second", std::make_unique<Probe>(second, kNever));
  bus.emit(StepEnd{});
  bus.emit(Message{Message::Level::info, "hello"});
  CHECK(first.events == 2);
  CHECK(second.events == 2);
  CHECK(second.messages == std::vector<std::string>{"hello"});
}

TEST_CASE("a failing sink is reported once through the others, and is offered later events") {
  Probe::Record failing;
  Probe::Record before;
  Probe::Record after;
  EventBus bus;
  bus.add("console", std::make_unique<Probe>(before, kNever));
  bus.add("metrics.jsonl", std::make_unique<Probe>(failing, 0));
  bus.add("train.log", std::make_unique<Probe>(after, kNever));
  for (int i = 0; i < 3; ++i) REQUIRE_NOTHROW(bus.emit(StepEnd{}));
  const std::vector<std::string> report{"metrics.jsonl: disk is full (the run goes on; reported once)"};
  CHECK(before.messages == report);
  CHECK(after.messages == report);
  CHECK(before.events == 4);
  CHECK(failing.messages.empty());
  CHECK(failing.events == 3);
}

TEST_CASE("a sink that fails on another one's report is reported too, and all failing is survived") {
  Probe::Record first;
  Probe::Record second;
  Probe::Record third;
  EventBus bus;
  bus.add("first", std::make_unique<Probe>(first, 0));
  bus.add("second", std::make_unique<Probe>(second, 1));
  bus.add("third", std::make_unique<Probe>(third, 2));
  REQUIRE_NOTHROW(bus.emit(StepEnd{}));
  CHECK(second.messages.size() == 1);
  REQUIRE(third.messages.size() == 2);
  CHECK(third.messages[1].rfind("second: ", 0) == 0);
  REQUIRE_NOTHROW(bus.emit(StepEnd{}));
}

TEST_CASE("something thrown that is no std::exception does not leave the bus") {
  class Odd final : public EventSink {
    void on_event(const Event&) override { throw 1; }
  };
  Probe::Record other;
  EventBus bus;
  bus.add("odd", std::make_unique<Odd>());
  bus.add("other", std::make_unique<Probe>(other, kNever));
  REQUIRE_NOTHROW(bus.emit(StepEnd{}));
  CHECK(other.messages == std::vector<std::string>{"odd: unknown error (the run goes on; reported once)"});
}

}  // namespace
}  // namespace ampctl::events
