#include <array>
#include <chrono>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>

#include "events/append_file.h"
#include "events/event_lines.h"
#include "events/sinks.h"

namespace ampctl::events {
namespace {

std::string local_time() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 64> buffer{};
  const auto length = std::strftime(buffer.data(), buffer.size(), "%Y-%m-%d %H:%M:%S%z", &parts);
  return {buffer.data(), length};
}

std::string_view level_name(Line::Kind kind) {
  switch (kind) {
    case Line::Kind::warning:
      return "WARNING";
    case Line::Kind::error:
      return "ERROR";
    case Line::Kind::step:
    case Line::Kind::event:
    case Line::Kind::closing:
      break;
  }
  return "INFO";
}

class LogSink final : public EventSink {
 public:
  LogSink(std::filesystem::path path, Message::Level level) : file_(std::move(path)), lines_(level) {}

  void on_event(const Event& event) override {
    const auto lines = lines_.lines(event);
    if (lines.empty()) return;
    const std::string time = local_time();
    std::string text;
    for (const auto& line : lines) {
      const std::string prefix = time + " " + std::string(level_name(line.kind)) + " ";
      // Each line of a block carries the time, so that grep and sort work.
      for (size_t begin = 0; begin <= line.text.size();) {
        const size_t end = std::min(line.text.find('\n', begin), line.text.size());
        text += prefix + line.text.substr(begin, end - begin) + "\n";
        begin = end + 1;
      }
    }
    file_.append(text);
  }

 private:
  AppendFile file_;
  EventLines lines_;
};

}  // namespace

std::unique_ptr<EventSink> make_log(const std::filesystem::path& path, Message::Level level) {
  return std::make_unique<LogSink>(path, level);
}

}  // namespace ampctl::events
