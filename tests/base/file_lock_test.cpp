#include "base/file_lock.h"

#include <csignal>
#include <fstream>
#include <optional>

#include <sys/wait.h>
#include <unistd.h>

#include "support/catch.h"
#include "support/process.h"

namespace {

using namespace ampctl;

// The message with which a second lock of the folder is refused; "" when it is granted.
std::string refusal(const std::filesystem::path& folder) {
  try {
    const FolderLock lock(folder);
  } catch (const Error& error) {
    return std::to_string(exit_code(error.kind())) + ": " + error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& piece) {
  return text.find(piece) != std::string::npos;
}

// A process that holds the lock until it is killed.
pid_t start_holder(const std::filesystem::path& folder) {
  int ready[2];
  if (pipe(ready) != 0) throw std::runtime_error("pipe failed");
  const pid_t pid = fork();
  if (pid == 0) {
    const FolderLock lock(folder);
    [[maybe_unused]] const auto written = write(ready[1], "x", 1);
    for (;;) pause();
  }
  char byte = 0;
  if (read(ready[0], &byte, 1) != 1) throw std::runtime_error("the holder did not start");
  close(ready[0]);
  close(ready[1]);
  return pid;
}

}  // namespace

TEST_CASE("a second lock of a folder is refused, naming process, host and folder, until the first ends") {
  const test::TempDir dir;
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  {
    const FolderLock lock(dir.path());
    const std::string message = refusal(dir.path());
    CHECK(contains(message, "3: the folder '" + dir.path().string() + "' is in use by process " +
                                std::to_string(getpid()) + " on host " + host));
    CHECK(contains(message, "choose another output folder"));
  }
  CHECK(refusal(dir.path()).empty());
}

TEST_CASE("the lock of a killed process is free at once") {
  const test::TempDir dir;
  const pid_t pid = start_holder(dir.path());
  CHECK(contains(refusal(dir.path()), "process " + std::to_string(pid)));
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  CHECK(refusal(dir.path()).empty());
}

TEST_CASE("a started program does not inherit the lock") {
  const test::TempDir dir;
  std::optional<FolderLock> lock(std::in_place, dir.path());
  const pid_t pid = fork();
  if (pid == 0) {
    execlp("sleep", "sleep", "60", nullptr);
    _exit(127);
  }
  // Until exec the child shares the lock.
  const std::string program = "/proc/" + std::to_string(pid) + "/comm";
  for (std::string name; name != "sleep";) {
    std::ifstream in(program);
    in >> name;
    usleep(1000);
  }
  lock.reset();
  CHECK(refusal(dir.path()).empty());
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

TEST_CASE("whatever a lock file holds is shown harmlessly, and a missing folder is named") {
  const test::TempDir dir;
  const FolderLock lock(dir.path());
  std::ofstream(dir.path() / ".lock") << "\x1b[2J";
  CHECK(contains(refusal(dir.path()), "in use by another process"));
  CHECK(contains(refusal(dir.path() / "absent"), "absent/.lock': No such file or directory"));
}
