#include "support/process.h"

#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ampctl::test {
namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
  int read_end = -1;
  int write_end = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
    read_end = ends[0];
    write_end = ends[1];
  }
};

[[noreturn]] void become(const std::vector<std::string>& command, const std::vector<std::string>& env,
                         const Pipe& out, const Pipe& err) {
  dup2(out.write_end, STDOUT_FILENO);
  dup2(err.write_end, STDERR_FILENO);
  exec_command(command, env);
}

// Returns false at the end of the stream.
bool drain(int fd, std::string& into) {
  std::array<char, 65536> buffer{};
  const ssize_t n = read(fd, buffer.data(), buffer.size());
  if (n > 0) into.append(buffer.data(), static_cast<size_t>(n));
  return n > 0;
}

}  // namespace

void exec_command(const std::vector<std::string>& command, const std::vector<std::string>& env) {
  for (const auto& entry : env) putenv(const_cast<char*>(entry.c_str()));
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const auto& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  _exit(127);
}

ProcessResult run(const std::vector<std::string>& command, const std::vector<std::string>& env,
                  std::chrono::seconds timeout) {
  Pipe out;
  Pipe err;
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error("fork failed");
  if (pid == 0) become(command, env, out, err);
  close(out.write_end);
  close(err.write_end);

  ProcessResult result;
  const auto deadline = Clock::now() + timeout;
  bool out_open = true;
  bool err_open = true;
  while (out_open || err_open) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) {
      kill(pid, SIGKILL);
      break;
    }
    std::array<pollfd, 2> fds{pollfd{out_open ? out.read_end : -1, POLLIN, 0},
                              pollfd{err_open ? err.read_end : -1, POLLIN, 0}};
    poll(fds.data(), fds.size(), static_cast<int>(left));
    if (fds[0].revents != 0) out_open = drain(out.read_end, result.out);
    if (fds[1].revents != 0) err_open = drain(err.read_end, result.err);
  }
  close(out.read_end);
  close(err.read_end);
  int status = 0;
  waitpid(pid, &status, 0);
  result.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

std::string python() { return AMPCTL_TEST_PYTHON; }

bool python_has(const std::vector<std::string>& modules) {
  if (python().empty()) return false;
  std::string code = "import importlib.util as u, sys; sys.exit(not all(u.find_spec(m) for m in '";
  for (const auto& module : modules) code += module + " ";
  code += "'.split()))";
  return run({python(), "-c", code}).exit_code == 0;
}

std::filesystem::path source_dir() { return AMPCTL_SOURCE_DIR; }

std::filesystem::path shared_data_dir() {
  const char* given = std::getenv("AMPCTL_TEST_DATA");
  std::filesystem::path path = given != nullptr ? given : AMPCTL_SOURCE_DIR "/../shared/data";
  return std::filesystem::is_directory(path) ? path : std::filesystem::path();
}

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "ampctl-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace ampctl::test
