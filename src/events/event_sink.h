// The one narrow interface between the loop and what people see.
#pragma once

#include <memory>
#include <vector>

#include "events/events.h"

namespace ampctl::events {

class EventSink {
 public:
  virtual ~EventSink() = default;
  /// May throw; the EventBus reports the first failure of a sink once and goes on.
  virtual void on_event(const Event& event) = 0;
};

/// Hands every event to every sink, in order. A failing sink is reported once, through the others, and
/// never ends the run.
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
  std::vector<Entry> sinks_;
};

}  // namespace ampctl::events
