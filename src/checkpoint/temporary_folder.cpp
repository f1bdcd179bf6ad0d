#include "checkpoint/temporary_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/durable_file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/layout.h"

namespace ampctl::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kFolderMode = 0777;

FileDescriptor open_folder(const fs::path& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
}

// The kernel drops the lock however its holder ends. Where folders cannot be locked (NFS), nobody holds one:
// the lock of the run's folder then is what keeps two runs apart.
bool held_by_a_live_process(const fs::path& path) {
  const FileDescriptor fd = open_folder(path);
  return fd.get() >= 0 && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

// Exchanges two names at once; false where the file system cannot.
bool exchange(const fs::path& a, const fs::path& b) {
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return true;
  if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) return false;
  throw file_error("exchange '" + a.string() + "' and", b, errno);
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

}  // namespace

TemporaryFolder::TemporaryFolder(const fs::path& checkpoints, int64_t step)
    : checkpoints_(checkpoints),
      path_(temporary_path(checkpoints, folder_name(step))),
      final_(checkpoints / folder_name(step)),
      replaced_(replaced_path(checkpoints, folder_name(step))) {
  if (::mkdir(path_.c_str(), kFolderMode) != 0) throw file_error("create the folder", path_, errno);
  lock_ = open_folder(path_);
  if (lock_.get() >= 0) ::flock(lock_.get(), LOCK_EX | LOCK_NB);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

fs::path TemporaryFolder::publish() {
  replacing_ = is_there(final_);
  try {
    take_final_name();
    sync_folder(checkpoints_);
    // Under the temporary name it is no longer a checkpoint, which must not be before the newer one is
    // durable.
    if (is_there(replaced_)) rename_path(replaced_, path_);
  } catch (const Error&) {
    give_back();
    throw;
  }
  return final_;
}

void TemporaryFolder::remove_replaced() {
  if (!replacing_) return;
  remove_tree(path_);
  sync_folder(checkpoints_);
}

void TemporaryFolder::take_final_name() {
  exchanged_ = replacing_ && exchange(path_, final_);
  if (exchanged_) return;
  if (replacing_) rename_path(final_, replaced_);
  rename_path(path_, final_);
}

// As far as the disk still allows: what cannot be undone leaves a complete folder under one of the names.
void TemporaryFolder::give_back() noexcept {
  std::error_code ignored;
  if (is_there(replaced_)) {
    fs::rename(final_, path_, ignored);
    fs::rename(replaced_, final_, ignored);
  } else if (!replacing_) {
    fs::rename(final_, path_, ignored);
  } else if (exchanged_) {
    ::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, final_.c_str(), RENAME_EXCHANGE);
  }
}

void clean_leftovers(const fs::path& checkpoints) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(checkpoints, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error) throw file_error("list", checkpoints, error.value());
  std::sort(names.begin(), names.end());
  bool changed = false;
  for (const auto& name : names) {
    if (const auto replaced = name_of_replaced(name); replaced && !is_there(checkpoints / *replaced)) {
      rename_path(checkpoints / name, checkpoints / *replaced);
    } else if (replaced || (name_of_temporary(name) && !held_by_a_live_process(checkpoints / name))) {
      remove_tree(checkpoints / name);
    } else {
      continue;
    }
    changed = true;
  }
  if (changed) sync_folder(checkpoints);
}

}  // namespace ampctl::checkpoint
