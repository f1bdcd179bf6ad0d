// A terminal that vanishes, a reader that goes away: training goes on.
#include <csignal>
#include <thread>

#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/train/runs.h"
#include "support/catch.h"
#include "support/matchers.h"

namespace ampctl::test {
namespace {

using namespace std::chrono_literals;

/// A program with a terminal of its own, as in a terminal window.
class TerminalProcess {
 public:
  explicit TerminalProcess(std::vector<std::string> command)
      : pid_(forkpty(&terminal_, nullptr, nullptr, nullptr)) {
    if (pid_ != 0) return;
    std::vector<char*> words;
    words.reserve(command.size() + 1);
    for (auto& word : command) words.push_back(word.data());
    words.push_back(nullptr);
    execv(words[0], words.data());
    _exit(127);
  }
  ~TerminalProcess() {
    if (terminal_ >= 0) close(terminal_);
    if (waited_) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  TerminalProcess(const TerminalProcess&) = delete;
  TerminalProcess& operator=(const TerminalProcess&) = delete;

  /// Reads what there is for a moment.
  void read_some() {
    pollfd wanted{terminal_, POLLIN, 0};
    char buffer[4096];
    if (poll(&wanted, 1, 20) <= 0) return;
    const ssize_t n = read(terminal_, buffer, sizeof buffer);
    if (n > 0) shown_.append(buffer, static_cast<size_t>(n));
  }
  void press(char key) const { REQUIRE(write(terminal_, &key, 1) == 1); }
  /// The kernel sends SIGHUP to the program.
  void close_window() {
    close(terminal_);
    terminal_ = -1;
  }
  int exit_code() {
    int status = 0;
    waited_ = true;
    const bool ended = eventually(
        [&] {
          if (terminal_ >= 0) read_some();
          return waitpid(pid_, &status, WNOHANG) == pid_;
        },
        kRunLimit);
    if (!ended) {
      waited_ = false;
      return -1;
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  [[nodiscard]] const std::string& shown() const { return shown_; }

 private:
  int terminal_ = -1;
  pid_t pid_ = -1;
  bool waited_ = false;
  std::string shown_;
};

std::string quoted(const std::vector<std::string>& command) {
  std::string line;
  for (const auto& word : command) line += "'" + word + "' ";
  return line;
}

void check_complete(const Workspace& workspace, const std::string& name) {
  const fs::path run = workspace.run_folder(name);
  const fs::path whole = workspace.run_folder("whole");
  CHECK(checkpoint_difference(latest(run), latest(whole)).empty());
  CHECK(metrics(run).size() == metrics(whole).size());
  CHECK(summary(run).size() == summary(whole).size());
  CHECK_THAT(read_file(run / "train.log"), ContainsSubstring("step"));
}

}  // namespace

TEST_CASE("A run whose terminal or reader goes away trains to its end and exits 0 with complete files") {
  const Workspace workspace(kMlpExperiment);
  REQUIRE(workspace.train("whole").exit_code == 0);
  const auto command = [&](const std::string& name) { return workspace.command(name); };

  SECTION("a terminal window is closed") {
    TerminalProcess process(command("window"));
    REQUIRE(eventually(
        [&] {
          process.read_some();
          return last_step(workspace.run_folder("window")) > 0;
        },
        kRunLimit));
    process.close_window();
    CHECK(process.exit_code() == 0);
    check_complete(workspace, "window");
  }
  SECTION("a pipe's reader exits after a line") {
    const auto result =
        run({"bash", "-c", "set -o pipefail; " + quoted(command("pipe")) + "| head -n 1"}, {}, kRunLimit);
    CHECK(result.exit_code == 0);
    check_complete(workspace, "pipe");
  }
  SECTION("all standard streams are closed") {
    const auto result = run({"sh", "-c", quoted(command("closed")) + "<&- >&- 2>&-"}, {}, kRunLimit);
    CHECK(result.exit_code == 0);
    check_complete(workspace, "closed");
  }
  SECTION("the disk under the redirected output is full") {
    const auto result = run({"sh", "-c", quoted(command("full")) + ">/dev/full 2>&1"}, {}, kRunLimit);
    CHECK(result.exit_code == 0);
    check_complete(workspace, "full");
  }
}

TEST_CASE("Ctrl-C in a terminal stops the run after a checkpoint") {
  const Workspace workspace(kMlpExperiment);
  const fs::path run = workspace.run_folder("run");
  TerminalProcess process(workspace.command("run", {"train.epochs=2000"}));
  REQUIRE(eventually(
      [&] {
        process.read_some();
        return last_step(run) > 0;
      },
      kRunLimit));
  constexpr char kCtrlC = 3;
  process.press(kCtrlC);
  CHECK(process.exit_code() == kPreempted);
  CHECK_THAT(process.shown(), ContainsSubstring("SIGINT"));
  CHECK(state(latest(run)).at("progress").at("windows") == last_step(run));
}

}  // namespace ampctl::test
