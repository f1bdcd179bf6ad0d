// Colours for messages and reports.
#pragma once

#include <string>

#include "base/terminal.h"

namespace ampctl::cli {

/// Marks up text for what is at the other end of `fd`; returns it unchanged where colour is not wanted.
class Style {
 public:
  explicit Style(int fd) : enabled_(wants_color(fd)) {}

  [[nodiscard]] std::string red(const std::string& text) const { return mark("1;31", text); }
  [[nodiscard]] std::string green(const std::string& text) const { return mark("32", text); }
  [[nodiscard]] std::string yellow(const std::string& text) const { return mark("33", text); }

 private:
  [[nodiscard]] std::string mark(const char* code, const std::string& text) const {
    return enabled_ ? "\033[" + std::string(code) + "m" + text + "\033[0m" : text;
  }

  bool enabled_;
};

}  // namespace ampctl::cli
