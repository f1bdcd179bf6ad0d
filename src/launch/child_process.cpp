#include "launch/child_process.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>

#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

namespace ampctl::launch {
namespace {

constexpr int kExecFailed = 127;

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> list;
  list.reserve(words.size() + 1);
  for (auto& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

// Everything that exec needs, made before the fork: between fork and exec nothing may be allocated.
struct Prepared {
  explicit Prepared(const ChildCommand& command) : words{command.program.string()} {
    words.insert(words.end(), command.arguments.begin(), command.arguments.end());
    for (const auto& [name, value] : command.environment) entries.push_back(name + "=" + value);
    argv = pointers(words);
    environment = pointers(entries);
    CPU_ZERO(&cpus);
    for (const int cpu : command.cpus) CPU_SET(static_cast<unsigned>(cpu), &cpus);
  }

  std::vector<std::string> words;
  std::vector<std::string> entries;
  std::vector<char*> argv;
  std::vector<char*> environment;
  cpu_set_t cpus{};
};

void block_stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&set, number);
  sigprocmask(SIG_SETMASK, &set, nullptr);
}

// Runs in the child. Returns only when something failed, with errno set.
void become(const ChildCommand& command, const Prepared& prepared) {
  setpgid(0, 0);
  // Not the terminal's own group any more, which may be set to stop those that write to it.
  signal(SIGTTOU, SIG_IGN);
  block_stop_signals();
  // Near the GPU is faster, elsewhere works as well.
  if (!command.cpus.empty()) sched_setaffinity(0, sizeof(prepared.cpus), &prepared.cpus);
  if (command.out >= 0 && dup2(command.out, STDOUT_FILENO) < 0) return;
  if (command.err >= 0 && dup2(command.err, STDERR_FILENO) < 0) return;
  for (const int fd : command.inherited) {
    if (fcntl(fd, F_SETFD, 0) < 0) return;
  }
  execve(prepared.argv[0], prepared.argv.data(), prepared.environment.data());
}

[[noreturn]] void run_child(const ChildCommand& command, const Prepared& prepared, int report) {
  become(command, prepared);
  const int reason = errno;
  [[maybe_unused]] const auto written = write(report, &reason, sizeof(reason));
  _exit(kExecFailed);
}

}  // namespace

pid_t start_child(const ChildCommand& command) {
  const Prepared prepared(command);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw environment_error(std::string("could not make a pipe to start a process: ") + std::strerror(errno) +
                            "; see 'ulimit -n'");
  }
  const FileDescriptor failure(ends[0]);
  FileDescriptor report(ends[1]);
  const pid_t pid = fork();
  if (pid == 0) run_child(command, prepared, report.get());
  const int fork_error = errno;
  report = FileDescriptor();
  if (pid < 0) {
    throw environment_error(std::string("could not start another process: ") + std::strerror(fork_error) +
                            "; see 'ulimit -u' and the container's limit of processes");
  }
  // Also here, so that the group exists before anything is sent to it.
  setpgid(pid, pid);
  int reason = 0;
  ssize_t count = 0;
  do {
    count = read(failure.get(), &reason, sizeof(reason));
  } while (count < 0 && errno == EINTR);
  if (count == sizeof(reason)) {
    waitpid(pid, nullptr, 0);
    throw environment_error("could not start " + command.program.string() + ": " + std::strerror(reason));
  }
  return pid;
}

std::optional<ChildEnd> next_end() {
  siginfo_t info{};
  if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return std::nullopt;
  ChildEnd end;
  end.pid = info.si_pid;
  // Before its id is given back and may name another process.
  kill(-end.pid, SIGKILL);
  int status = 0;
  while (waitpid(end.pid, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFSIGNALED(status)) {
    end.signal = WTERMSIG(status);
  } else {
    end.exit_code = WEXITSTATUS(status);
  }
  return end;
}

void signal_child(pid_t pid, int number) { kill(-pid, number); }

bool is_stopped(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  // "pid (name) state …", where the name may hold anything.
  constexpr std::size_t kToState = 2;
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + kToState >= text.size()) return false;
  const char state = text[name_end + kToState];
  return state == 'T' || state == 't';
}

}  // namespace ampctl::launch
