// Takes back what a run wrote after the checkpoint that it resumes from.
#pragma once

#include <cstdint>
#include <filesystem>

namespace ampctl::events {

/// Drops the lines of a .jsonl or .csv file whose step is greater than `step`, and lines that a crash left
/// incomplete, so that a resumed run shows each step once. Call it before the sinks are made. Replaces
/// the file by a complete one in a single rename (temporary file, fsync, rename, fsync of the folder), or
/// leaves it alone when nothing is to be dropped. A missing file is no error; one that is not such a file is
/// an environment error. `evaluated` false: the evaluation at `step` itself is not in the checkpoint and will
/// be made again, so its line goes as well.
void truncate_after(const std::filesystem::path& path, int64_t step, bool evaluated = true);

}  // namespace ampctl::events
