// What `ampctl inspect` finds out, as JSON for programs, and its rendering for people.
#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

namespace ampctl::cli {

using Json = nlohmann::ordered_json;

/// A safetensors file: {"kind": "tensors", "path", "bytes", "elements", "metadata": {}, "tensors": [{"name",
/// "dtype", "shape", "bytes"}]}. Throws an environment error when it is not one.
[[nodiscard]] Json inspect_tensors(const std::filesystem::path& path);
[[nodiscard]] std::string tensors_text(const Json& tensors);

/// A checkpoint's folder: {"kind": "checkpoint", "path", "step", "saved_at" (Unix seconds), "bytes", "whole",
/// "problem" (null when whole), "format_version", "program_version", "files": [{"name", "bytes", "crc32"}],
/// "state" (state.json without the configuration; null when unreadable), "tensors": [inspect_tensors of each
/// readable file]}. Damage is reported in "problem", not thrown.
[[nodiscard]] Json inspect_checkpoint(const std::filesystem::path& folder);
[[nodiscard]] std::string checkpoint_text(const Json& found);

/// A run's folder: {"kind": "run", "path", "config": {"file", "problem", and main fields}, "last_step" and
/// "last_evaluation" (lines of metrics.jsonl, or null), "best": {"metric", "value", "step"} (or null),
/// "checkpoints": [{"step", "path", "saved_at", "bytes", "whole", "problem", "latest", "best"}]}.
[[nodiscard]] Json inspect_run(const std::filesystem::path& folder);
[[nodiscard]] std::string run_text(const Json& run);

/// Seconds since the file changed last, and that time as Unix seconds.
[[nodiscard]] double unix_time(const std::filesystem::path& file);
[[nodiscard]] std::string age_text(double unix_seconds);

}  // namespace ampctl::cli
