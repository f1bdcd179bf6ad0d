#include "events/fd_writer.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <ctime>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

namespace ampctl::events {
namespace {

constexpr size_t kMaxBacklog = size_t{256} * 1024;  // bytes: some thousand lines
constexpr int kFirstPrivateFd = 3;                  // never takes the place of a closed standard stream

// A write to a pipe without a reader raises SIGPIPE in the writing thread. Blocks it and takes it back, so
// that the process's own handling of the signal is left alone.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoSigpipe() {
    const int error = errno;
    const timespec at_once{};
    if (!was_pending_) {
      while (sigtimedwait(&pipe_, nullptr, &at_once) < 0 && errno == EINTR) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
  bool was_pending_ = false;
};

bool has_room(int fd, int timeout_ms) {
  pollfd entry{fd, POLLOUT, 0};
  return poll(&entry, 1, timeout_ms) > 0;
}

}  // namespace

FdWriter::FdWriter(int fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0) {
    open_error_ = errno;
    return;
  }
  if (S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode)) {
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    fd_ = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    way_ = Way::nonblocking;
  }
  if (fd_ >= 0) return;
  // Another user's terminal (after su) cannot be opened anew; small writes after a poll come next best.
  way_ = S_ISSOCK(info.st_mode) ? Way::socket : S_ISREG(info.st_mode) ? Way::plain : Way::polled;
  fd_ = fcntl(fd, F_DUPFD_CLOEXEC, kFirstPrivateFd);
  if (fd_ < 0) open_error_ = errno;
}

FdWriter::~FdWriter() { close_fd(); }

void FdWriter::close_fd() noexcept {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

void FdWriter::fail(int error) {
  backlog_.clear();
  const bool may_pass = error == ENOSPC || error == EDQUOT;
  if (!may_pass) close_fd();
  throw environment_error(
      std::string("the output cannot be written: ") + std::generic_category().message(error) +
      (may_pass ? "; lines are lost until there is room" : "; nothing more is shown there"));
}

ssize_t FdWriter::write_some(std::string_view text) {
  for (;;) {
    ssize_t written = 0;
    if (way_ == Way::socket) {
      written = ::send(fd_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    } else {
      if (way_ == Way::polled) {
        if (!has_room(fd_, 0)) return 0;
        text = text.substr(0, PIPE_BUF);
      }
      const NoSigpipe guard;
      written = ::write(fd_, text.data(), text.size());
    }
    if (written >= 0) return written;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (errno != EINTR) fail(errno);
  }
}

void FdWriter::flush() {
  if (open_error_ != 0) fail(std::exchange(open_error_, 0));
  size_t done = 0;
  while (fd_ >= 0 && done < backlog_.size()) {
    const auto written = write_some(std::string_view(backlog_).substr(done));
    if (written <= 0) break;
    done += static_cast<size_t>(written);
  }
  backlog_.erase(0, done);
  if (backlog_.empty() && dropped_ > 0) {
    backlog_ = "[" + std::to_string(std::exchange(dropped_, 0)) + " outputs were lost: nothing read them]\n";
    flush();
  }
}

void FdWriter::send(std::string_view text) {
  if (broken() && open_error_ == 0) return;
  flush();
  if (backlog_.size() + text.size() > kMaxBacklog) {
    ++dropped_;
    return;
  }
  backlog_ += text;
  flush();
}

void FdWriter::offer(std::string_view text) {
  if (broken() && open_error_ == 0) return;
  flush();
  if (!backlog_.empty()) return;
  backlog_ = text;
  const auto written = write_some(backlog_);
  // Once begun, the rest has to follow: half an escape sequence would garble the next line.
  backlog_.erase(0, written > 0 ? static_cast<size_t>(written) : backlog_.size());
}

void FdWriter::drain(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    if (broken() && open_error_ == 0) return;
    flush();
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (backlog_.empty() || left.count() <= 0) return;
    has_room(fd_, static_cast<int>(left.count()));
  }
}

}  // namespace ampctl::events
