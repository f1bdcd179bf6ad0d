// The one narrow interface between the loop and what people see.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "events/events.h"

namespace ampctl::events {

class EventSink {
 public:
  virtual ~EventSink() = default;
  /// May throw; the EventBus reports the first failure of a sink once and goes on.
  virtual void on_event(const Event& event) = 0;
};

/// Hands every event to every sink, in the order of add(). A sink that throws is reported once, through the
/// others, as Message{warning} with its name and the reason. It is still offered every later event, silently
/// (as spdlog does): a full disk may get room again. Nothing a sink throws leaves emit().
///
/// Not thread-safe: one thread, the trainer's, calls add() and emit().
class EventBus {
 public:
  void add(std::string name, std::unique_ptr<EventSink> sink);
  void emit(const Event& event);

 private:
  struct Entry {
    std::string name;
    std::unique_ptr<EventSink> sink;
    bool failed = false;
  };
  /// Returns the report to make when this was the sink's first failure, else an empty text.
  static std::string deliver(Entry& entry, const Event& event);
  std::vector<Entry> sinks_;
};

}  // namespace ampctl::events
