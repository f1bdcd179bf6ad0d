// What a field's value may be, as data that the reader, the JSON schema and the documentation share.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ampctl::config {

struct Rule {
  std::optional<double> min;
  std::optional<double> max;
  bool min_excluded = false;
  bool max_excluded = false;
  std::vector<std::string> choices;                           ///< text fields: the only values allowed
  std::vector<std::pair<std::string, std::string>> synonyms;  ///< another spelling and what it stands for
  std::string unit_text;
  std::string absent_text;  ///< optional fields: what null means
  std::string null_word;    ///< optional fields: a word that means null
  bool is_required = false;
  std::vector<std::string> owners;  ///< not empty: an option of these values of `selector` only
  std::string selector;             ///< the neighbouring field that decides
  std::string selected;             ///< its value at the moment of description

  Rule at_most(double bound) &&;
  Rule below(double bound) &&;
  Rule also(std::string other, std::string meaning) &&;
  Rule unit(std::string text) &&;
  Rule absent(std::string meaning) &&;
  Rule absent_word(std::string word) &&;
  Rule required() &&;
  Rule option_of(std::vector<std::string> names, std::string field, std::string value) &&;

  /// False for an option that the selected name does not take.
  [[nodiscard]] bool applies() const;
  [[nodiscard]] bool in_range(double value) const;
  /// The choice that `text` stands for, or nothing.
  [[nodiscard]] std::optional<std::string> choice(const std::string& text) const;
  /// " >= 1 and < 2" or ""; for messages and tables.
  [[nodiscard]] std::string range_text() const;
};

Rule any();
Rule at_least(double bound);
Rule above(double bound);
Rule one_of(std::vector<std::string> choices);
/// auto | true | false, in every spelling of a YAML boolean.
Rule auto_or_bool();

/// "a, b or c".
std::string join_or(const std::vector<std::string>& words);

}  // namespace ampctl::config
