#include <algorithm>
#include <set>
#include <system_error>

#include "base/durable_file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/layout.h"
#include "checkpoint/temporary_folder.h"

namespace ampctl::checkpoint {
namespace {

namespace fs = std::filesystem;

std::string link_target(const fs::path& link) {
  std::error_code ignored;
  return fs::read_symlink(link, ignored).filename().string();
}

// A folder that is half removed must not look like a checkpoint, so it loses its name first.
void remove_checkpoint(const fs::path& checkpoints, const std::string& name) {
  const fs::path temporary = temporary_path(checkpoints, name);
  rename_path(checkpoints / name, temporary);
  try {
    remove_tree(temporary);
  } catch (const Error&) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw;
  }
}

}  // namespace

std::vector<int64_t> list(const fs::path& checkpoints) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator it(checkpoints, error), end; !error && it != end; it.increment(error)) {
    const auto step = step_of(it->path().filename().string());
    std::error_code ignored;
    if (step && fs::exists(it->path() / kManifestFile, ignored)) steps.push_back(*step);
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw file_error("list", checkpoints, error.value());
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

void retain(const fs::path& checkpoints, int64_t keep) {
  if (keep < 1) throw Error(ErrorKind::internal, "at least one checkpoint must be kept");
  clean_leftovers(checkpoints);
  std::vector<int64_t> steps = list(checkpoints);
  const std::set<std::string> pointed_at{link_target(checkpoints / kLatestLink),
                                         link_target(checkpoints / kBestLink)};
  const auto surplus = static_cast<int64_t>(steps.size()) - keep;
  for (int64_t i = 0; i < surplus; ++i) {
    const std::string name = folder_name(steps[static_cast<size_t>(i)]);
    if (!pointed_at.contains(name)) remove_checkpoint(checkpoints, name);
  }
  if (surplus > 0) sync_folder(checkpoints);
}

std::vector<int64_t> discard_newer(const fs::path& checkpoints, int64_t step) {
  std::vector<int64_t> discarded = list(checkpoints);
  std::erase_if(discarded, [step](int64_t other) { return other <= step; });
  if (discarded.empty()) return discarded;
  point(checkpoints, kLatestLink, checkpoints / folder_name(step));
  for (const int64_t other : discarded) {
    if (link_target(checkpoints / kBestLink) == folder_name(other)) remove_tree(checkpoints / kBestLink);
    remove_checkpoint(checkpoints, folder_name(other));
  }
  sync_folder(checkpoints);
  return discarded;
}

}  // namespace ampctl::checkpoint
