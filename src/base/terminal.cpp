#include "base/terminal.h"

#include <cstdlib>
#include <string_view>

#include <sys/ioctl.h>
#include <unistd.h>

namespace ampctl {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

}  // namespace

bool is_interactive_terminal(int fd) {
  const auto term = variable("TERM");
  return !term.empty() && term != "dumb" && isatty(fd) == 1;
}

int terminal_width(int fd) {
  constexpr int kDefaultColumns = 80;
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefaultColumns;
  return size.ws_col;
}

bool wants_color(int fd) { return is_interactive_terminal(fd) && variable("NO_COLOR").empty(); }

}  // namespace ampctl
