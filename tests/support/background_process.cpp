#include "support/background_process.h"

#include <csignal>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/process.h"

namespace ampctl::test {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(5);

}  // namespace

BackgroundProcess::BackgroundProcess(const std::vector<std::string>& command, std::filesystem::path log,
                                     const std::vector<std::string>& env)
    : log_(std::move(log)), pid_(fork()) {
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ > 0) return;
  const int fd = open(log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  dup2(fd, STDOUT_FILENO);
  dup2(fd, STDERR_FILENO);
  exec_command(command, env);
}

BackgroundProcess::~BackgroundProcess() {
  if (exit_code_) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void BackgroundProcess::signal(int number) const {
  if (!exit_code_) kill(pid_, number);
}

std::optional<int> BackgroundProcess::wait(std::chrono::milliseconds timeout) {
  eventually(
      [this] {
        int status = 0;
        if (!exit_code_ && waitpid(pid_, &status, WNOHANG) == pid_) {
          exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        }
        return exit_code_.has_value();
      },
      timeout);
  return exit_code_;
}

std::string BackgroundProcess::output() const {
  std::ifstream in(log_);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

}  // namespace ampctl::test
