#include "launch/rank_files.h"

#include <cerrno>
#include <string>

#include <fcntl.h>

namespace ampctl::launch {
namespace fs = std::filesystem;

RankFiles rank_files(const fs::path& log_dir, int64_t attempt, int64_t rank) {
  const fs::path folder = log_dir / ("attempt_" + std::to_string(attempt)) / std::to_string(rank);
  return {folder / "stdout.log", folder / "stderr.log", folder / "error.json"};
}

void prepare(const RankFiles& files) {
  std::error_code failure;
  fs::create_directories(files.error.parent_path(), failure);
  if (failure) throw file_error("create folder", files.error.parent_path(), failure.value());
  fs::remove(files.error, failure);
  if (failure) throw file_error("remove", files.error, failure.value());
}

FileDescriptor open_log(const fs::path& path) {
  constexpr mode_t kReadableByAll = 0644;
  FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kReadableByAll));
  if (file.get() < 0) throw file_error("open", path, errno);
  return file;
}

}  // namespace ampctl::launch
