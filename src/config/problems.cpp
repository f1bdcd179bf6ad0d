#include "config/problems.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"

namespace ampctl::config {
namespace {

constexpr size_t kMostTold = 50;
constexpr size_t kLongestQuote = 80;

}  // namespace

std::string Position::text() const {
  if (!source) return "configuration";
  if (line == 0) return *source;
  return *source + ":" + std::to_string(line) + ":" + std::to_string(column);
}

void Problems::add(int order, const Position& where, const std::string& message) {
  problems_.push_back({order, where, message});
}

void Problems::throw_if_any() const {
  if (problems_.empty()) return;
  auto sorted = problems_;
  std::ranges::stable_sort(sorted, [](const Problem& a, const Problem& b) {
    // Pointers compare by identity alone: two files of one rank only have to stay apart.
    return std::tie(a.order, a.where.source, a.where.line, a.where.column) <
           std::tie(b.order, b.where.source, b.where.line, b.where.column);
  });
  std::string text;
  if (sorted.size() > 1) text = std::to_string(sorted.size()) + " problems in the configuration:\n";
  for (size_t i = 0; i < std::min(sorted.size(), kMostTold); ++i) {
    if (i > 0) text += '\n';
    text += sorted[i].where.text() + ": " + sorted[i].message;
  }
  if (sorted.size() > kMostTold) text += "\n... and " + std::to_string(sorted.size() - kMostTold) + " more";
  throw usage_error(text);
}

std::string shortened(const std::string& text) {
  std::string visible;
  for (const char c : text) {
    if (visible.size() >= kLongestQuote) break;
    if (c == '\n') {
      visible += "\\n";
    } else {
      visible += static_cast<unsigned char>(c) < ' ' ? '?' : c;
    }
  }
  if (visible.size() < kLongestQuote) return visible;
  // Never cuts a UTF-8 sequence in two.
  while (!visible.empty() && (static_cast<unsigned char>(visible.back()) & 0xC0U) == 0x80U)
    visible.pop_back();
  if (!visible.empty() && (static_cast<unsigned char>(visible.back()) & 0x80U) != 0) visible.pop_back();
  return visible + "...";
}

}  // namespace ampctl::config
