#include "events/truncate.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <istream>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/durable_file.h"
#include "base/error.h"

namespace ampctl::events {
namespace {

/// A line's step; nothing for a line that is not whole.
using StepOf = std::function<std::optional<int64_t>(std::string_view)>;

std::optional<int64_t> step_of_json(std::string_view line) {
  const auto value = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object() || !value.contains("step") || !value["step"].is_number_integer())
    return std::nullopt;
  return value["step"].get<int64_t>();
}

// Our columns are numbers: no quotes to respect.
std::string_view csv_field(std::string_view line, size_t column) {
  for (; column > 0; --column) {
    const auto comma = line.find(',');
    if (comma == std::string_view::npos) return {};
    line.remove_prefix(comma + 1);
  }
  return line.substr(0, line.find(','));
}

size_t csv_columns(std::string_view line) {
  return static_cast<size_t>(std::count(line.begin(), line.end(), ',')) + 1;
}

StepOf step_of_csv(const std::filesystem::path& path, const std::string& header) {
  const size_t columns = csv_columns(header);
  for (size_t column = 0; column < columns; ++column) {
    if (csv_field(header, column) != "step") continue;
    return [columns, column](std::string_view line) -> std::optional<int64_t> {
      if (csv_columns(line) != columns) return std::nullopt;
      const auto field = csv_field(line, column);
      int64_t value = 0;
      const auto end = std::from_chars(field.data(), field.data() + field.size(), value);
      if (end.ec != std::errc() || end.ptr != field.data() + field.size()) return std::nullopt;
      return value;
    };
  }
  throw environment_error(path.string() + ":1: expected a table with a column 'step', found '" + header +
                          "'; move the file away to continue the run");
}

/// What the file holds after the truncation, and whether that differs from what it holds now.
struct Kept {
  std::string text;
  bool changed = false;
};

Kept keep_lines(std::istream& input, const std::filesystem::path& path, int64_t step) {
  const bool csv = path.extension() == ".csv";
  StepOf step_of = csv ? StepOf() : step_of_json;
  Kept kept;
  for (std::string line; std::getline(input, line);) {
    const bool complete = !input.eof();
    std::string_view content = line;
    if (csv && !content.empty() && content.back() == '\r') content.remove_suffix(1);
    bool keep = complete;
    if (!step_of) {
      if (complete) step_of = step_of_csv(path, std::string(content));
    } else if (complete) {
      const auto found = step_of(content);
      keep = found && *found <= step;
    }
    if (keep) kept.text.append(line).push_back('\n');
    kept.changed = kept.changed || !keep;
  }
  return kept;
}

}  // namespace

void truncate_after(const std::filesystem::path& path, int64_t step) {
  if (!std::filesystem::exists(path)) return;
  std::ifstream input(path, std::ios::binary);
  const Kept kept = keep_lines(input, path, step);
  if (!input.eof()) throw environment_error("cannot read '" + path.string() + "': check its permissions");
  if (kept.changed) write_text_file(path, kept.text);
}

}  // namespace ampctl::events
