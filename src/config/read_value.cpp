#include "config/read_value.h"

#include <algorithm>

#include "config/nearest.h"
#include "config/scalars.h"

namespace ampctl::config {
namespace {

// "1_000" and "1,000" are how people write thousands elsewhere.
std::string number_hint(const std::string& text) {
  std::string digits = text;
  std::erase_if(digits, [](char c) { return c == '_' || c == ','; });
  if (digits != text && parse_number(digits)) return "; write " + digits;
  return "";
}

}  // namespace

bool ValueReader::refuse(const Node& node, const std::string& expected, const std::string& hint) const {
  if (node.kind == Node::Kind::invalid) return false;
  problems.add(node.order, node.where, key + ": expected " + expected + ", found " + node.described() + hint);
  return false;
}

bool ValueReader::read(const Node& node, bool& value) const {
  const auto parsed = node.kind == Node::Kind::scalar && !node.quoted ? parse_bool(node.text) : std::nullopt;
  if (!parsed) return refuse(node, "true or false");
  value = *parsed;
  return true;
}

bool ValueReader::read(const Node& node, int64_t& value) const {
  const std::string expected = "an integer" + rule.range_text();
  if (node.kind != Node::Kind::scalar) return refuse(node, expected);
  if (node.quoted) return refuse(node, expected, parse_integer(node.text) ? "; leave the quotes out" : "");
  const auto parsed = parse_integer(node.text);
  if (!parsed) return refuse(node, expected, number_hint(node.text));
  if (!rule.in_range(static_cast<double>(*parsed))) return refuse(node, expected);
  value = *parsed;
  return true;
}

bool ValueReader::read(const Node& node, double& value) const {
  const std::string expected = "a number" + rule.range_text();
  if (node.kind != Node::Kind::scalar) return refuse(node, expected);
  if (node.quoted) return refuse(node, expected, parse_number(node.text) ? "; leave the quotes out" : "");
  const auto parsed = parse_number(node.text);
  if (!parsed) return refuse(node, expected, number_hint(node.text));
  if (!rule.in_range(*parsed)) return refuse(node, expected);
  value = *parsed;
  return true;
}

bool ValueReader::read(const Node& node, std::string& value) const {
  if (rule.choices.empty()) {
    if (node.kind != Node::Kind::scalar || node.text.empty()) return refuse(node, "text");
    value = node.text;
    return true;
  }
  const std::string expected = (rule.choices.size() > 1 ? "one of " : "") + join_or(rule.choices);
  if (node.kind != Node::Kind::scalar) return refuse(node, expected);
  const auto chosen = rule.choice(node.text);
  if (!chosen) {
    std::vector<std::string> words = rule.choices;
    for (const auto& synonym : rule.synonyms) words.push_back(synonym.first);
    const auto near = nearest(node.text, words);
    return refuse(node, expected, near ? " (did you mean '" + *near + "'?)" : "");
  }
  value = *chosen;
  return true;
}

bool ValueReader::read(const Node& node, std::array<double, 2>& value) const {
  const std::string expected = "a list of two numbers" + rule.range_text();
  if (node.kind != Node::Kind::sequence || node.items.size() != value.size()) {
    return refuse(node, expected,
                  node.kind == Node::Kind::sequence ? " of " + std::to_string(node.items.size()) : "");
  }
  std::array<double, 2> result{};
  bool good = true;
  for (size_t i = 0; i < result.size(); ++i) good = read(node.items[i], result[i]) && good;
  if (good) value = result;
  return good;
}

}  // namespace ampctl::config
