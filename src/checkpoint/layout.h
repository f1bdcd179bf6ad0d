// Names inside a run's `checkpoints/` folder, apart from those that checkpoint.h makes public.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace ampctl::checkpoint {

inline constexpr const char* kLatestLink = "latest";
inline constexpr const char* kBestLink = "best";

/// Something incomplete, or about to be removed: never read, removed by the next save or retain.
std::filesystem::path temporary_path(const std::filesystem::path& checkpoints, std::string_view name);

/// A complete checkpoint that is just being replaced, where the file system cannot exchange two names at
/// once: it counts while `name` itself is missing.
std::filesystem::path replaced_path(const std::filesystem::path& checkpoints, std::string_view name);

/// The name that temporary_path() or replaced_path() was made for; nullopt for other names.
std::optional<std::string> name_of_temporary(std::string_view file_name);
std::optional<std::string> name_of_replaced(std::string_view file_name);

/// The step of "step-00001000"; nullopt for other names.
std::optional<int64_t> step_of(std::string_view file_name);

/// True for a name that stays inside its folder: no separator, neither empty nor "." nor "..".
bool is_plain_name(std::string_view name);

/// The folder, or its complete predecessor where a crash came between the two renames of a replacement.
std::filesystem::path existing_folder(const std::filesystem::path& folder);

}  // namespace ampctl::checkpoint
