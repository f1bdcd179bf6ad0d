// Numbers as people read them. Independent of the process's locale.
#pragma once

#include <string>
#include <string_view>

namespace ampctl {

/// 0.53, 12.3, 999, 1.2k, 45.1k, 3.4M, 1.2G; "nan" and "inf" as such.
[[nodiscard]] std::string format_count(double value);

/// 0.8s, 12s, 1m03s, 1h02m, 3d04h.
[[nodiscard]] std::string format_duration(double seconds);

/// A share from 0 to 1 as "12.3%".
[[nodiscard]] std::string format_share(double share);

/// A percentage (0 to 100) as "91.23%", two decimals, as papers give accuracies.
[[nodiscard]] std::string format_percent(double percent);

/// Up to `digits` significant digits without idle zeros, as printf's %g: 0.1, 0.01234, 1.5e-05.
[[nodiscard]] std::string format_general(double value, int digits);

/// `digits` significant digits, zeros kept, so that a column does not jump: 0.4120, 6.912, 1.234e-05.
[[nodiscard]] std::string format_significant(double value, int digits);

/// Up to six significant digits; whole powers of two from 2^24 on as "2^24": scales stay readable.
[[nodiscard]] std::string format_scale(double value);

/// The text with control characters other than newline and tab replaced by '?', so that a file's name
/// cannot command the terminal.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace ampctl
