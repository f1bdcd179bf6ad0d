#include "config/rule.h"

#include <algorithm>

#include "config/scalars.h"

namespace ampctl::config {

Rule Rule::at_most(double bound) && {
  max = bound;
  return std::move(*this);
}

Rule Rule::below(double bound) && {
  max = bound;
  max_excluded = true;
  return std::move(*this);
}

Rule Rule::also(std::string other, std::string meaning) && {
  synonyms.emplace_back(std::move(other), std::move(meaning));
  return std::move(*this);
}

Rule Rule::unit(std::string text) && {
  unit_text = std::move(text);
  return std::move(*this);
}

Rule Rule::absent(std::string meaning) && {
  absent_text = std::move(meaning);
  return std::move(*this);
}

Rule Rule::absent_word(std::string word) && {
  null_word = std::move(word);
  return std::move(*this);
}

Rule Rule::required() && {
  is_required = true;
  return std::move(*this);
}

Rule Rule::option_of(std::vector<std::string> names, std::string field, std::string value) && {
  owners = std::move(names);
  selector = std::move(field);
  selected = std::move(value);
  return std::move(*this);
}

bool Rule::applies() const { return owners.empty() || std::ranges::find(owners, selected) != owners.end(); }

bool Rule::in_range(double value) const {
  if (min && (value < *min || (min_excluded && value == *min))) return false;
  return !(max && (value > *max || (max_excluded && value == *max)));
}

std::optional<std::string> Rule::choice(const std::string& text) const {
  if (std::ranges::find(choices, text) != choices.end()) return text;
  for (const auto& [other, meaning] : synonyms) {
    if (other == text) return meaning;
  }
  return std::nullopt;
}

std::string Rule::range_text() const {
  std::string text;
  if (min) text += (min_excluded ? " > " : " >= ") + format_number(*min);
  if (min && max) text += " and";
  if (max) text += (max_excluded ? " < " : " <= ") + format_number(*max);
  return text;
}

Rule any() { return {}; }

Rule at_least(double bound) {
  Rule rule;
  rule.min = bound;
  return rule;
}

Rule above(double bound) {
  Rule rule;
  rule.min = bound;
  rule.min_excluded = true;
  return rule;
}

Rule one_of(std::vector<std::string> choices) {
  Rule rule;
  rule.choices = std::move(choices);
  return rule;
}

Rule auto_or_bool() {
  Rule rule = one_of({"auto", "true", "false"});
  for (const auto* word : {"True", "TRUE", "yes", "Yes", "on", "On"})
    rule.synonyms.emplace_back(word, "true");
  for (const auto* word : {"False", "FALSE", "no", "No", "off", "Off"}) {
    rule.synonyms.emplace_back(word, "false");
  }
  return rule;
}

std::string join_or(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

}  // namespace ampctl::config
