// Gathers everything that is wrong with a configuration, so that all of it is told in one go.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace ampctl::config {

/// A place in a file, or the override that said something.
struct Position {
  std::shared_ptr<const std::string> source;  ///< file name or "--set key=value"; null: nowhere
  int line = 0;                               ///< from 1; 0: the source as a whole
  int column = 0;                             ///< from 1, in characters

  /// "file:line:column", "--set key=value" or "configuration".
  [[nodiscard]] std::string text() const;
};

class Problems {
 public:
  /// `order` is the rank of the source: problems are told source by source, in the order of its lines.
  void add(int order, const Position& where, const std::string& message);
  [[nodiscard]] bool empty() const { return problems_.empty(); }
  /// Throws one usage error with a line a problem; nothing when there is none.
  void throw_if_any() const;

 private:
  struct Problem {
    int order = 0;
    Position where;
    std::string message;
  };
  std::vector<Problem> problems_;
};

/// The text, shortened for messages and with line breaks made visible.
std::string shortened(const std::string& text);

}  // namespace ampctl::config
