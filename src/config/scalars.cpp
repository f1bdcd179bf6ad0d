#include "config/scalars.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <nlohmann/json.hpp>

namespace ampctl::config {
namespace {

constexpr double kLargestExactInteger = 9007199254740992.0;  // 2^53
constexpr double kFixedFrom = 1e-4;
constexpr double kFixedBelow = 1e15;

std::string_view without_plus(std::string_view text) {
  const bool signed_number = text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+';
  return signed_number ? text.substr(1) : text;
}

bool is_plain_safe(const std::string& value) {
  const auto word_character = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '/' || c == '.' || c == '-' || c == '+';
  };
  if (value.empty() || value.front() == '-' || !std::ranges::all_of(value, word_character)) return false;
  // Words that YAML 1.1 readers would not take as text.
  constexpr std::array kWords{"null", "Null", "NULL", "yes", "Yes", "YES", "no", "No",
                              "NO",   "on",   "On",   "ON",  "off", "Off", "OFF"};
  return std::ranges::find(kWords, value) == kWords.end();
}

}  // namespace

std::optional<double> parse_number(std::string_view text) {
  const std::string_view digits = without_plus(text);
  double value = 0.0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

std::optional<int64_t> parse_integer(std::string_view text) {
  const std::string_view digits = without_plus(text);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc() && end == digits.data() + digits.size()) return value;
  const auto number = parse_number(text);
  if (!number || *number != std::trunc(*number) || std::abs(*number) > kLargestExactInteger)
    return std::nullopt;
  return static_cast<int64_t>(*number);
}

std::optional<bool> parse_bool(std::string_view text) {
  constexpr std::array kTrue{"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"};
  constexpr std::array kFalse{"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"};
  if (std::ranges::find(kTrue, text) != kTrue.end()) return true;
  if (std::ranges::find(kFalse, text) != kFalse.end()) return false;
  return std::nullopt;
}

std::string format_number(double value) {
  std::array<char, 64> buffer{};
  const double size = std::abs(value);
  const bool fixed = value == 0.0 || (size >= kFixedFrom && size < kFixedBelow);
  const auto format = fixed ? std::chars_format::fixed : std::chars_format::scientific;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format);
  std::string text(buffer.data(), end);
  if (!fixed && text.find('.') == std::string::npos) {
    text.insert(text.find('e'), 1, '0');
    text.insert(text.find('e') - 1, 1, '.');
  }
  return text;
}

std::string format_text(const std::string& value) {
  if (is_plain_safe(value)) return value;
  std::string escaped;
  for (size_t i = 0; i < value.size(); ++i) {
    if (value[i] == '$' && i + 1 < value.size() && value[i + 1] == '{') escaped += '$';
    escaped += value[i];
  }
  // A JSON string is a YAML double-quoted scalar.
  return nlohmann::json(escaped).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string format_count(int64_t value) {
  constexpr int kGroup = 3;
  std::string digits = std::to_string(value);
  const int first = value < 0 ? 1 : 0;
  for (int i = static_cast<int>(digits.size()) - kGroup; i > first; i -= kGroup) {
    digits.insert(static_cast<size_t>(i), 1, ',');
  }
  return digits;
}

}  // namespace ampctl::config
