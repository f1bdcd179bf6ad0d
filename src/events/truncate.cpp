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

constexpr const char* kEvaluation = "eval/loss";
constexpr const char* kEvaluationColumn = "eval_loss";

struct Entry {
  int64_t step = 0;
  bool evaluation = false;
};

/// What a line tells of; nothing for a line that is not whole.
using EntryOf = std::function<std::optional<Entry>(std::string_view)>;

std::optional<Entry> entry_of_json(std::string_view line) {
  const auto value = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object() || !value.contains("step") || !value["step"].is_number_integer())
    return std::nullopt;
  return Entry{value["step"].get<int64_t>(), value.contains(kEvaluation)};
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

std::optional<size_t> csv_column(const std::string& header, std::string_view name) {
  for (size_t column = 0; column < csv_columns(header); ++column) {
    if (csv_field(header, column) == name) return column;
  }
  return std::nullopt;
}

EntryOf entry_of_csv(const std::filesystem::path& path, const std::string& header) {
  const auto step = csv_column(header, "step");
  if (!step) {
    throw environment_error(path.string() + ":1: expected a table with a column 'step', found '" + header +
                            "'; move the file away to continue the run");
  }
  return [columns = csv_columns(header), step = *step,
          evaluation = csv_column(header, kEvaluationColumn)](std::string_view line) -> std::optional<Entry> {
    if (csv_columns(line) != columns) return std::nullopt;
    const auto field = csv_field(line, step);
    Entry entry;
    const auto end = std::from_chars(field.data(), field.data() + field.size(), entry.step);
    if (end.ec != std::errc() || end.ptr != field.data() + field.size()) return std::nullopt;
    entry.evaluation = evaluation && !csv_field(line, *evaluation).empty();
    return entry;
  };
}

/// What the file holds after the truncation, and whether that differs from what it holds now.
struct Kept {
  std::string text;
  bool changed = false;
};

Kept keep_lines(std::istream& input, const std::filesystem::path& path, int64_t step, bool evaluated) {
  const bool csv = path.extension() == ".csv";
  EntryOf entry_of = csv ? EntryOf() : entry_of_json;
  Kept kept;
  for (std::string line; std::getline(input, line);) {
    const bool complete = !input.eof();
    std::string_view content = line;
    if (csv && !content.empty() && content.back() == '\r') content.remove_suffix(1);
    bool keep = complete;
    if (!entry_of) {
      if (complete) entry_of = entry_of_csv(path, std::string(content));
    } else if (complete) {
      const auto entry = entry_of(content);
      const bool repeated = entry && entry->step == step && entry->evaluation && !evaluated;
      keep = entry && entry->step <= step && !repeated;
    }
    if (keep) kept.text.append(line).push_back('\n');
    kept.changed = kept.changed || !keep;
  }
  return kept;
}

}  // namespace

void truncate_after(const std::filesystem::path& path, int64_t step, bool evaluated) {
  if (!std::filesystem::exists(path)) return;
  std::ifstream input(path, std::ios::binary);
  const Kept kept = keep_lines(input, path, step, evaluated);
  if (!input.eof()) throw environment_error("cannot read '" + path.string() + "': check its permissions");
  if (kept.changed) write_text_file(path, kept.text);
}

}  // namespace ampctl::events
