#include "launch/worker_process.h"

#include <cerrno>
#include <csignal>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"

namespace ampctl::launch {
namespace fs = std::filesystem;
namespace {

bool is_program(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

Error system_failure(const std::string& what) {
  return environment_error(what + ": " + std::strerror(errno));
}

// A request to stop that comes while the worker's libraries are being loaded waits until it can answer: the
// mask outlives exec, and the worker takes these signals one by one.
void keep_stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&set, number);
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

}  // namespace

fs::path find_worker(const Variables& variables, const fs::path& folder) {
  const auto given = variables.find(kWorkerVariable);
  if (given != variables.end() && !given->second.empty()) {
    if (is_program(given->second)) return given->second;
    throw environment_error(std::string(kWorkerVariable) + "=" + given->second +
                            " is not a program that can be run: set it to the path of " + kWorkerName +
                            ", or unset it");
  }
  const fs::path beside = folder / kWorkerName;
  const fs::path libexec = folder.parent_path() / "libexec" / "ampctl" / kWorkerName;
  for (const auto& path : {beside, libexec}) {
    if (is_program(path)) return path;
  }
  throw environment_error(std::string(kWorkerName) + " was not found: looked for " + beside.string() +
                          " and " + libexec.string() +
                          ". Build or install the whole project (cmake --build, cmake --install), or set " +
                          kWorkerVariable + " to its path");
}

fs::path find_worker(const Variables& variables) {
  std::error_code failure;
  const fs::path self = fs::read_symlink("/proc/self/exe", failure);
  return find_worker(variables, failure ? fs::path(".") : self.parent_path());
}

int make_inherited_file(const std::string& name, const std::string& text) {
  FileDescriptor file(memfd_create(name.c_str(), 0));
  if (file.get() < 0) throw system_failure("could not make an anonymous file (memfd_create)");
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = write(file.get(), text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw system_failure("could not write the configuration for the worker");
    done += static_cast<std::size_t>(written);
  }
  lseek(file.get(), 0, SEEK_SET);
  return file.release();
}

void become_worker(const fs::path& worker, const std::vector<std::string>& arguments) {
  keep_stop_signals();
  std::vector<std::string> words{worker.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(worker.c_str(), argv.data());
  throw system_failure("could not start " + worker.string());
}

}  // namespace ampctl::launch
