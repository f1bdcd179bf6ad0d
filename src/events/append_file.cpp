#include "events/append_file.h"

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ampctl::events {

AppendFile::AppendFile(std::filesystem::path path) : path_(std::move(path)) { open(); }

void AppendFile::open() {
  std::error_code error;
  if (path_.has_parent_path()) std::filesystem::create_directories(path_.parent_path(), error);
  if (error) throw file_error("make the folder of", path_, error.value());
  constexpr mode_t kMode = 0666;  // less the umask, as every program's files
  FileDescriptor opened(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, kMode));
  if (opened.get() < 0) throw file_error("open", path_, errno);
  fd_ = std::move(opened);
}

bool AppendFile::empty() const {
  struct stat info {};
  return fstat(fd_.get(), &info) == 0 && info.st_size == 0;
}

bool AppendFile::deleted() const {
  // A renamed or moved file still has its link: writing goes on there, as for logrotate.
  struct stat info {};
  return fstat(fd_.get(), &info) == 0 && info.st_nlink == 0;
}

void AppendFile::write_whole(std::string_view text) {
  struct stat before {};
  if (fstat(fd_.get(), &before) != 0) throw file_error("examine", path_, errno);
  size_t done = 0;
  while (done < text.size()) {
    const auto written = ::write(fd_.get(), text.data() + done, text.size() - done);
    if (written > 0) {
      done += static_cast<size_t>(written);
      continue;
    }
    if (written < 0 && errno == EINTR) continue;
    const int error = written < 0 ? errno : EIO;
    // Half a line would make the file unreadable for good.
    if (done > 0 && ftruncate(fd_.get(), before.st_size) != 0) {
      throw file_error("take back half a line of", path_, error);
    }
    throw file_error("write", path_, error);
  }
}

void AppendFile::append(std::string_view text, std::string_view first_text) {
  if (!deleted()) return write_whole(text);
  open();
  write_whole(std::string(empty() ? first_text : std::string_view()) + std::string(text));
  throw environment_error(path_.string() +
                          ": was deleted while the run was writing it; a new file was started");
}

}  // namespace ampctl::events
