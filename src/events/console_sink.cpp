#include <chrono>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/terminal.h"
#include "events/event_lines.h"
#include "events/fd_writer.h"
#include "events/progress_bar.h"
#include "events/sinks.h"

namespace ampctl::events {
namespace {

constexpr std::chrono::milliseconds kLastWait{1000};  // for the closing block, when the reader is slow
constexpr const char* kEraseLine = "\r\x1b[K";

class ConsoleSink final : public EventSink {
 public:
  explicit ConsoleSink(const ConsoleOptions& options)
      : fd_(options.fd),
        mode_(options.mode),
        color_(wants_color(options.fd)),
        lines_(options.level),
        writer_(options.fd) {
    if (mode_ == ProgressMode::automatic) {
      mode_ = is_interactive_terminal(fd_) ? ProgressMode::bar : ProgressMode::plain;
    }
  }

  ~ConsoleSink() override {
    try {
      // What the program prints next must not continue the bar's line.
      erase_bar();
      writer_.drain(kLastWait);
    } catch (const std::exception&) {
      // The run is over and its outcome known: there is nobody left to tell.
    }
  }

  ConsoleSink(const ConsoleSink&) = delete;
  ConsoleSink& operator=(const ConsoleSink&) = delete;

  void on_event(const Event& event) override {
    std::string text;
    for (const auto& line : lines_.lines(event)) {
      if (shown(line.kind)) text += painted(line) + "\n";
    }
    if (!text.empty()) {
      if (std::exchange(bar_drawn_, false)) text.insert(0, kEraseLine);
      writer_.send(text);
    }
    if (std::holds_alternative<RunEnded>(event)) {
      erase_bar();
      writer_.drain(kLastWait);
    } else if (mode_ == ProgressMode::bar) {
      draw(event, !text.empty());
    }
  }

 private:
  [[nodiscard]] bool shown(Line::Kind kind) const {
    switch (kind) {
      case Line::Kind::step:
        return mode_ == ProgressMode::plain;
      case Line::Kind::event:
        return mode_ != ProgressMode::none;
      case Line::Kind::warning:
      case Line::Kind::error:
      case Line::Kind::closing:
        break;
    }
    return true;
  }

  [[nodiscard]] std::string painted(const Line& line) const {
    std::string text = line.text;
    const char* color = nullptr;
    if (line.kind == Line::Kind::warning) {
      text = "warning: " + text;
      color = "\x1b[33m";
    } else if (line.kind == Line::Kind::error) {
      text = "error: " + text;
      color = "\x1b[31m";
    }
    return color_ && color != nullptr ? color + text + "\x1b[0m" : text;
  }

  void draw(const Event& event, bool scrolled) {
    // A line as wide as the terminal would wrap, and could not be redrawn.
    const int width = terminal_width(fd_) - 1;
    std::string bar;
    if (const auto* progress = std::get_if<Progress>(&event)) {
      bar = activity_line(lines_.epoch(), *progress, width);
    } else if (lines_.last_step() && (scrolled || std::holds_alternative<StepEnd>(event))) {
      bar = bar_line(*lines_.last_step(), width);
    }
    if (bar.empty()) return;
    writer_.offer(kEraseLine + bar);
    bar_drawn_ = true;
  }

  void erase_bar() {
    if (std::exchange(bar_drawn_, false)) writer_.send(kEraseLine);
  }

  int fd_;
  ProgressMode mode_;
  bool color_;
  EventLines lines_;
  FdWriter writer_;
  bool bar_drawn_ = false;
};

}  // namespace

ProgressMode parse_progress_mode(const std::string& name) {
  if (name == "auto") return ProgressMode::automatic;
  if (name == "bar") return ProgressMode::bar;
  if (name == "plain") return ProgressMode::plain;
  if (name == "none") return ProgressMode::none;
  throw usage_error("log.progress: expected auto, bar, plain or none, found '" + name + "'");
}

Message::Level parse_level(const std::string& name) {
  if (name == "trace" || name == "debug" || name == "info") return Message::Level::info;
  if (name == "warn" || name == "warning") return Message::Level::warning;
  if (name == "error") return Message::Level::error;
  throw usage_error("log.level: expected trace, debug, info, warn or error, found '" + name + "'");
}

std::unique_ptr<EventSink> make_console(const ConsoleOptions& options) {
  return std::make_unique<ConsoleSink>(options);
}

}  // namespace ampctl::events
