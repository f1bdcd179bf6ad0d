// The file in which a worker leaves the reason of its failure for whoever started it, in torchrun's format:
// {"message": {"message": TEXT, "errorCode": N, "extraInfo": {"py_callstack": TEXT, "timestamp": "SECONDS"}}}
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace ampctl::launch {

/// Writes it atomically: a reader sees the whole file or none. The first failure of a process is the cause of
/// the later ones, so an existing file is left as it is. Does nothing when it cannot be written, since the
/// failure being reported matters more.
void write_error_file(const std::filesystem::path& path, const std::string& message, int exit_code) noexcept;

struct WorkerError {
  std::string message;
  int64_t timestamp = 0;  ///< seconds since 1970
};

/// What a worker left there; nothing when there is no such file or it cannot be read.
[[nodiscard]] std::optional<WorkerError> read_error_file(const std::filesystem::path& path);

}  // namespace ampctl::launch
