#include "launch/child_process.h"

#include <algorithm>
#include <csignal>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "launch/launcher_signals.h"
#include "support/background_process.h"
#include "support/catch.h"
#include "support/matchers.h"
#include "support/process.h"

using ampctl::FileDescriptor;
using ampctl::launch::ChildCommand;
using ampctl::launch::ChildEnd;
using ampctl::launch::is_stopped;
using ampctl::launch::LauncherSignals;
using ampctl::launch::next_end;
using ampctl::launch::signal_child;
using ampctl::launch::start_child;
using ampctl::test::ContainsSubstring;
using ampctl::test::eventually;
using ampctl::test::TempDir;

namespace {

constexpr std::chrono::seconds kSoon(20);

ChildCommand shell(const std::string& script) {
  ChildCommand command;
  command.program = "/bin/sh";
  command.arguments = {"-c", script};
  command.environment = {{"PATH", "/usr/bin:/bin"}, {"GIVEN", "yes"}};
  return command;
}

ChildEnd end_of(pid_t pid) {
  std::optional<ChildEnd> end;
  REQUIRE(eventually(
      [&] {
        end = next_end();
        return end.has_value();
      },
      kSoon));
  CHECK(end->pid == pid);
  return *end;
}

}  // namespace

TEST_CASE("A child gets its environment, output and descriptors, and leads a process group of its own") {
  const TempDir folder;
  const auto path = folder.path() / "out";
  const FileDescriptor out(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const FileDescriptor extra(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const FileDescriptor other(open("/dev/null", O_RDONLY | O_CLOEXEC));
  ChildCommand command =
      shell("echo $GIVEN $HOME; ls /proc/self/fd | tr '\\n' ' '; echo; ps -o pgid= -p $$; exit 7");
  command.out = out.get();
  command.inherited = {extra.get()};
  const pid_t pid = start_child(command);
  CHECK(end_of(pid).exit_code == 7);
  const std::string text = ampctl::read_text_file(path, 10000);
  CHECK_THAT(text, ampctl::test::StartsWith("yes\n") &&
                       ContainsSubstring(" " + std::to_string(extra.get()) + " ") &&
                       !ContainsSubstring(" " + std::to_string(other.get()) + " "));
  CHECK_THAT(text, ContainsSubstring(std::to_string(pid)));
}

TEST_CASE("A child's end is its exit code or its signal, and what it started ends with it") {
  CHECK_FALSE(next_end());
  CHECK(end_of(start_child(shell("exit 75"))).exit_code == 75);
  CHECK(end_of(start_child(shell("kill -KILL $$"))).signal == SIGKILL);
  const TempDir folder;
  const auto path = folder.path() / "pid";
  CHECK(end_of(start_child(shell("sleep 300 & echo $! > " + path.string()))).exit_code == 0);
  const pid_t left = std::stoi(ampctl::read_text_file(path, 100));
  CHECK(eventually([&] { return kill(left, 0) != 0; }, kSoon));
}

TEST_CASE("Requests to stop wait until a child asks for them") {
  // The shell reads its own mask: it would clear it for a program that it starts.
  const TempDir folder;
  const auto path = folder.path() / "mask";
  const FileDescriptor out(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ChildCommand command =
      shell("while read -r key value; do [ $key = SigBlk: ] && echo $value; done < /proc/self/status");
  command.out = out.get();
  const LauncherSignals signals;
  end_of(start_child(command));
  const auto blocked = std::stoull(ampctl::read_text_file(path, 100), nullptr, 16);
  for (const int number : {SIGTERM, SIGINT, SIGUSR1}) CHECK((blocked >> (number - 1) & 1) == 1);
  CHECK((blocked >> (SIGCHLD - 1) & 1) == 0);
}

TEST_CASE("A program that cannot be started is an environment error and leaves no child") {
  ChildCommand command = shell("");
  command.program = "/nowhere/worker";
  CHECK_THROWS_WITH(start_child(command), ContainsSubstring("could not start /nowhere/worker: No such file"));
  CHECK(waitpid(-1, nullptr, WNOHANG) == -1);
}

TEST_CASE("A stopped child is seen as stopped") {
  const pid_t pid = start_child(shell("exec sleep 300"));
  CHECK_FALSE(is_stopped(pid));
  signal_child(pid, SIGSTOP);
  CHECK(eventually([&] { return is_stopped(pid); }, kSoon));
  signal_child(pid, SIGKILL);
  CHECK(end_of(pid).signal == SIGKILL);
  CHECK_FALSE(is_stopped(pid));
}

TEST_CASE("A launcher's signals arrive at its descriptor, and all is as before afterwards") {
  {
    const LauncherSignals signals;
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGTERM);
    kill(getpid(), SIGHUP);
    std::vector<int> taken = signals.take();
    std::sort(taken.begin(), taken.end());
    CHECK(taken == std::vector<int>{SIGUSR1, SIGTERM});
    CHECK(signals.take().empty());
  }
  sigset_t set;
  sigprocmask(SIG_BLOCK, nullptr, &set);
  CHECK(sigismember(&set, SIGTERM) == 0);
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  CHECK(hangup.sa_handler == SIG_DFL);
}
