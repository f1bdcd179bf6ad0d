// Writes to a terminal, pipe, socket or file without ever waiting for its reader.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace ampctl::events {

/// Holds a descriptor of its own for the same file. Terminals and pipes are opened anew with O_NONBLOCK: the
/// flag belongs to the open file, which the given descriptor shares with the shell that started the run.
/// Raises no SIGPIPE.
///
/// The first write error that will not go away (reader or terminal gone) is thrown as an environment error;
/// after it everything is dropped silently. A full disk is thrown each time and tried again.
class FdWriter {
 public:
  explicit FdWriter(int fd);
  ~FdWriter();
  FdWriter(const FdWriter&) = delete;
  FdWriter& operator=(const FdWriter&) = delete;

  /// Text that should arrive: queued while the reader does not take it, up to a bound; beyond it texts are
  /// dropped whole and counted, and the count is told once there is room again.
  void send(std::string_view text);

  /// Text that is worth nothing later (a redraw): dropped when the reader has not taken all before it.
  void offer(std::string_view text);

  /// Waits until everything queued is written, no longer than `timeout`.
  void drain(std::chrono::milliseconds timeout);

  [[nodiscard]] bool broken() const { return fd_ < 0; }

 private:
  void flush();
  ssize_t write_some(std::string_view text);
  [[noreturn]] void fail(int error);
  void close_fd() noexcept;

  enum class Way { plain, nonblocking, socket, polled };
  int fd_ = -1;
  int open_error_ = 0;  // why there is no descriptor, until it was reported
  Way way_ = Way::plain;
  std::string backlog_;
  int64_t dropped_ = 0;
};

}  // namespace ampctl::events
