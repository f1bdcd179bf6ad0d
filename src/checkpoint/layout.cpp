#include "checkpoint/layout.h"

#include <charconv>
#include <cinttypes>
#include <cstdio>

#include "checkpoint/checkpoint.h"

namespace ampctl::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kTemporaryPrefix = ".tmp-";
constexpr std::string_view kReplacedPrefix = ".old-";

std::optional<std::string> without(std::string_view prefix, std::string_view name) {
  if (!name.starts_with(prefix) || name.size() == prefix.size()) return std::nullopt;
  return std::string(name.substr(prefix.size()));
}

template <size_t size>
std::string formatted(const char (&format)[size], int64_t number) {
  char text[64];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

}  // namespace

std::string rank_file(int64_t rank) { return formatted("rank-%05" PRId64 ".safetensors", rank); }
std::string folder_name(int64_t step) { return formatted("step-%08" PRId64, step); }

fs::path temporary_path(const fs::path& checkpoints, std::string_view name) {
  return checkpoints / (std::string(kTemporaryPrefix) += name);
}

fs::path replaced_path(const fs::path& checkpoints, std::string_view name) {
  return checkpoints / (std::string(kReplacedPrefix) += name);
}

std::optional<std::string> name_of_temporary(std::string_view file_name) {
  return without(kTemporaryPrefix, file_name);
}

std::optional<std::string> name_of_replaced(std::string_view file_name) {
  return without(kReplacedPrefix, file_name);
}

std::optional<int64_t> step_of(std::string_view file_name) {
  const auto digits = without(kStepPrefix, file_name);
  if (!digits) return std::nullopt;
  int64_t step = -1;
  const auto [end, error] = std::from_chars(digits->data(), digits->data() + digits->size(), step);
  // One spelling only, so that a step cannot have two folders.
  if (error != std::errc() || step < 0 || folder_name(step) != file_name) return std::nullopt;
  return step;
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

fs::path existing_folder(const fs::path& folder) {
  std::error_code ignored;
  if (fs::exists(folder, ignored)) return folder;
  const fs::path replaced = replaced_path(folder.parent_path(), folder.filename().string());
  return fs::exists(replaced, ignored) ? replaced : folder;
}

}  // namespace ampctl::checkpoint
