#include "base/durable_file.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/units.h"

namespace ampctl {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kFileMode = 0666;
constexpr mode_t kFolderMode = 0777;
// Checksummed and written piece by piece, so that the second pass finds the bytes in the cache.
constexpr uint64_t kChunkBytes = uint64_t{1} << 20;

fs::path parent_of(const fs::path& path) {
  const fs::path parent = path.parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

std::string free_space(const fs::path& folder) {
  struct statvfs status {};
  if (::statvfs(folder.c_str(), &status) != 0) return "an unknown amount";
  return format_bytes(uint64_t{status.f_bavail} * status.f_frsize);
}

}  // namespace

DurableFile::DurableFile(fs::path path, uint64_t expected_bytes)
    : path_(std::move(path)), expected_bytes_(expected_bytes) {
  fd_ =
      FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, kFileMode));
  if (fd_.get() < 0) throw failure("create", errno);
}

DurableFile::~DurableFile() {
  if (!finished_) ::unlink(path_.c_str());
}

void DurableFile::write(const void* data, uint64_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd_.get(), from, std::min(bytes, kChunkBytes));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw failure("write", errno);
    const auto taken = static_cast<uint64_t>(n);
    crc_.update(from, taken);
    written_.bytes += taken;
    from += taken;
    bytes -= taken;
  }
}

FileDigest DurableFile::finish() {
  if (::fsync(fd_.get()) != 0) throw failure("flush", errno);
  // Network file systems report a full disk as late as here.
  if (::close(fd_.release()) != 0) throw failure("close", errno);
  finished_ = true;
  written_.crc32 = crc_.value();
  return written_;
}

Error DurableFile::failure(const std::string& action, int error_number) const {
  if (error_number != ENOSPC && error_number != EDQUOT) return file_error(action, path_, error_number);
  const uint64_t needed = std::max(expected_bytes_, written_.bytes);
  return environment_error("cannot " + action + " '" + path_.string() +
                           "': " + std::generic_category().message(error_number) + ": the file needs " +
                           format_bytes(needed) + ", " + format_bytes(written_.bytes) + " were written and " +
                           free_space(parent_of(path_)) +
                           " are free: free some space, or choose another disk");
}

void write_text_file(const fs::path& path, std::string_view text) {
  const fs::path temporary = parent_of(path) / (".tmp-" + path.filename().string());
  DurableFile file(temporary, text.size());
  file.write(text.data(), text.size());
  file.finish();
  try {
    rename_path(temporary, path);
  } catch (const Error&) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_folder(parent_of(path));
}

void make_folders(const fs::path& path) {
  std::error_code error;
  if (path.empty() || fs::is_directory(path, error)) return;
  make_folders(path.parent_path());
  // Another process may have made it meanwhile; a file in its place shows as ENOTDIR later otherwise.
  if (::mkdir(path.c_str(), kFolderMode) != 0 && !(errno == EEXIST && fs::is_directory(path, error))) {
    throw file_error("create the folder", path, errno);
  }
  sync_folder(parent_of(path));
}

void rename_path(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    throw file_error("rename '" + from.string() + "' to", to, errno);
  }
}

void sync_folder(const fs::path& folder) {
  const FileDescriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) throw file_error("open the folder", folder, errno);
  // EINVAL: a file system that has no such operation (some network and FUSE ones) and needs none.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) throw file_error("flush the folder", folder, errno);
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw file_error("remove", path, error.value());
}

}  // namespace ampctl
