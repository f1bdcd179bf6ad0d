// An event bus whose events are kept for a test.
#pragma once

#include <memory>
#include <vector>

#include "events/event_sink.h"

namespace ampctl::test {

struct RecordingBus {
  RecordingBus() { bus.add("test", std::make_unique<Sink>(events)); }

  std::vector<ampctl::events::Event> events;
  ampctl::events::EventBus bus;

  /// The events of one kind, in their order.
  template <class Kind>
  [[nodiscard]] std::vector<Kind> all() const {
    std::vector<Kind> found;
    for (const auto& event : events) {
      if (const auto* value = std::get_if<Kind>(&event)) found.push_back(*value);
    }
    return found;
  }

 private:
  class Sink final : public ampctl::events::EventSink {
   public:
    explicit Sink(std::vector<ampctl::events::Event>& into) : into_(into) {}
    void on_event(const ampctl::events::Event& event) override { into_.push_back(event); }

   private:
    std::vector<ampctl::events::Event>& into_;
  };
};

}  // namespace ampctl::test
