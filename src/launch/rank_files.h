// Where a rank's output goes: torchrun's layout, <log
// folder>/attempt_K/RANK/{stdout.log,stderr.log,error.json}.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/file.h"

namespace ampctl::launch {

struct RankFiles {
  std::filesystem::path out;
  std::filesystem::path err;
  std::filesystem::path error;
};

[[nodiscard]] RankFiles rank_files(const std::filesystem::path& log_dir, int64_t attempt, int64_t rank);

/// Makes the folder, and removes the error file that an earlier run may have left there. Throws an
/// environment error.
void prepare(const RankFiles& files);

/// Opens a file for appending, so that an earlier run's lines stay. Throws an environment error.
[[nodiscard]] FileDescriptor open_log(const std::filesystem::path& path);

}  // namespace ampctl::launch
