#include <exception>
#include <utility>

#include "events/event_sink.h"

namespace ampctl::events {

void EventBus::add(std::string name, std::unique_ptr<EventSink> sink) {
  sinks_.push_back({std::move(name), std::move(sink)});
}

std::string EventBus::deliver(Entry& entry, const Event& event) {
  std::string reason;
  try {
    entry.sink->on_event(event);
    return {};
  } catch (const std::exception& error) {
    reason = error.what();
  } catch (...) {
    reason = "unknown error";
  }
  if (std::exchange(entry.failed, true)) return {};
  return entry.name + ": " + reason + " (the run goes on; reported once)";
}

void EventBus::emit(const Event& event) {
  std::vector<std::string> reports;
  const auto deliver_to_all = [&](const Event& each, const bool healthy_only) {
    for (auto& entry : sinks_) {
      if (healthy_only && entry.failed) continue;
      auto report = deliver(entry, each);
      if (!report.empty()) reports.push_back(std::move(report));
    }
  };
  deliver_to_all(event, false);
  // A report can make another sink fail for the first time, which is then reported as well: each sink fails
  // for the first time once, so this ends.
  // NOLINTNEXTLINE(modernize-loop-convert): reports grows while this runs
  for (size_t i = 0; i < reports.size(); ++i) {
    deliver_to_all(Message{Message::Level::warning, reports[i]}, true);
  }
}

}  // namespace ampctl::events
