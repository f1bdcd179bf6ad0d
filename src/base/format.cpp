#include "base/format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace ampctl {
namespace {

std::string chars(double value, std::chars_format format, int precision) {
  std::array<char, 400> buffer{};  // the longest double in fixed notation has 309 digits before its point
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format, precision);
  return {buffer.data(), end.ptr};
}

std::string fixed(double value, int decimals) { return chars(value, std::chars_format::fixed, decimals); }

std::string not_finite(double value) {
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

std::string two_digits(int64_t value) { return (value < 10 ? "0" : "") + std::to_string(value); }

}  // namespace

std::string format_count(double value) {
  if (!std::isfinite(value)) return not_finite(value);
  constexpr std::array<const char*, 5> kUnits{"", "k", "M", "G", "T"};
  size_t unit = 0;
  double magnitude = std::abs(value);
  // 999.5 would be printed as 1000 and 999.95k as 1000.0k: the next unit starts where rounding reaches it.
  while (unit + 1 < kUnits.size() && magnitude >= (unit == 0 ? 999.5 : 999.95)) {
    magnitude /= 1000.0;
    ++unit;
  }
  int decimals = 1;
  if (unit == 0 && magnitude >= 99.95) decimals = 0;
  if (unit == 0 && magnitude < 9.995) decimals = 2;
  return fixed(std::copysign(magnitude, value), decimals) + kUnits[unit];
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds)) return not_finite(seconds);
  if (seconds < 0) seconds = 0;
  if (seconds < 9.95) return fixed(seconds, 1) + "s";
  constexpr int64_t kMinute = 60;
  constexpr int64_t kHour = 60 * kMinute;
  constexpr int64_t kDay = 24 * kHour;
  const auto whole = static_cast<int64_t>(std::llround(std::min(seconds, 1e15)));
  if (whole < kMinute) return std::to_string(whole) + "s";
  if (whole < kHour) return std::to_string(whole / kMinute) + "m" + two_digits(whole % kMinute) + "s";
  if (whole < kDay) return std::to_string(whole / kHour) + "h" + two_digits(whole % kHour / kMinute) + "m";
  return std::to_string(whole / kDay) + "d" + two_digits(whole % kDay / kHour) + "h";
}

std::string format_share(double share) {
  return std::isfinite(share) ? fixed(share * 100.0, 1) + "%" : not_finite(share);
}

std::string format_percent(double percent) {
  return std::isfinite(percent) ? fixed(percent, 2) + "%" : not_finite(percent);
}

std::string format_general(double value, int digits) {
  return std::isfinite(value) ? chars(value, std::chars_format::general, digits) : not_finite(value);
}

std::string format_significant(double value, int digits) {
  if (!std::isfinite(value)) return not_finite(value);
  if (value == 0.0) return fixed(0.0, digits - 1);
  // The exponent after rounding decides, as in printf's %#g: 9.9999 is 10.00 and not 10.000.
  std::string scientific = chars(value, std::chars_format::scientific, digits - 1);
  int exponent = 0;
  const auto at = scientific.find('e') + 1;
  const auto* first = scientific.data() + at + (scientific[at] == '+' ? 1 : 0);
  std::from_chars(first, scientific.data() + scientific.size(), exponent);
  constexpr int kSmallestFixedExponent = -4;  // printf's rule
  if (exponent < kSmallestFixedExponent || exponent >= digits) return scientific;
  return fixed(value, digits - 1 - exponent);
}

std::string format_scale(double value) {
  if (!std::isfinite(value)) return not_finite(value);
  constexpr int kFirstExponent = 24;
  constexpr int kDigits = 6;
  int exponent = 0;
  if (std::frexp(value, &exponent) == 0.5 && exponent - 1 >= kFirstExponent) {
    return "2^" + std::to_string(exponent - 1);
  }
  const bool whole = value == std::floor(value) && std::abs(value) < std::ldexp(1.0, kFirstExponent);
  return whole ? fixed(value, 0) : format_general(value, kDigits);
}

std::string printable(std::string_view text) {
  std::string clean(text);
  for (char& c : clean) {
    const auto byte = static_cast<unsigned char>(c);
    constexpr unsigned char kDelete = 0x7f;
    if ((byte < ' ' && c != '\n' && c != '\t') || byte == kDelete) c = '?';
  }
  return clean;
}

}  // namespace ampctl
