// What is at the other end of a file descriptor.
#pragma once

namespace ampctl {

/// True for a terminal that understands cursor movement (a tty, and TERM neither unset nor "dumb").
[[nodiscard]] bool is_interactive_terminal(int fd);

/// Columns of the terminal at this moment; 80 where that is unknown.
[[nodiscard]] int terminal_width(int fd);

/// True for an interactive terminal unless NO_COLOR is set and not empty (no-color.org).
[[nodiscard]] bool wants_color(int fd);

}  // namespace ampctl
