#include "base/units.h"

#include <array>
#include <cstdio>

namespace ampctl {

std::string format_bytes(uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{"KiB", "MiB", "GiB", "TiB", "PiB"};
  constexpr double kStep = 1024.0;
  if (static_cast<double>(bytes) < kStep) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes) / kStep;
  std::size_t unit = 0;
  while (value >= kStep && unit + 1 < kUnits.size()) {
    value /= kStep;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %s", value, kUnits[unit]);
  return text.data();
}

std::string group_digits(int64_t number) {
  constexpr std::ptrdiff_t kGroup = 3;
  std::string digits = std::to_string(number);
  const std::ptrdiff_t first = number < 0 ? 1 : 0;
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - kGroup; at > first; at -= kGroup) {
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return digits;
}

}  // namespace ampctl
