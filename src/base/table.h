// Text in aligned columns.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ampctl {

enum class Align { left, right };

/// Rows of cells, every column as wide as its widest cell, two spaces apart. Cells are UTF-8 without control
/// sequences.
class Table {
 public:
  /// Columns beyond `columns` are aligned to the left.
  explicit Table(std::vector<Align> columns = {}, std::size_t indent = 0)
      : columns_(std::move(columns)), indent_(indent) {}

  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  [[nodiscard]] bool empty() const { return rows_.empty(); }

  /// One line a row, each ended by a newline, without spaces at its end.
  [[nodiscard]] std::string str() const;

 private:
  std::vector<Align> columns_;
  std::size_t indent_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ampctl
