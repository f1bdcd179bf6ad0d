#include "launch/probe.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

namespace ampctl::launch {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

std::optional<std::string> text(const Json& object, const char* key) {
  const auto entry = object.find(key);
  if (entry == object.end() || entry->is_null()) return std::nullopt;
  return entry->get<std::string>();
}

Gpu parse_gpu(const Json& object) {
  Gpu gpu;
  gpu.index = object.at("index").get<int64_t>();
  gpu.name = object.at("name").get<std::string>();
  const auto& capability = object.at("compute_capability");
  gpu.compute_capability = {capability.at(0).get<int>(), capability.at(1).get<int>()};
  gpu.total_memory_bytes = object.at("total_memory_bytes").get<uint64_t>();
  const auto free_memory = object.find("free_memory_bytes");
  if (free_memory != object.end() && !free_memory->is_null()) {
    gpu.free_memory_bytes = free_memory->get<uint64_t>();
  }
  gpu.multiprocessors = object.at("multiprocessors").get<int64_t>();
  return gpu;
}

// A child process that does not outlive this object.
struct Child {
  pid_t pid = -1;
  explicit Child(pid_t id) : pid(id) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid < 0) return;
    kill(pid, SIGKILL);
    wait();
  }
  int wait() {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    pid = -1;
    return status;
  }
};

pid_t start(const std::filesystem::path& worker, int out) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  std::string program = worker.string();
  std::string argument = "--probe";
  std::array<char*, 3> argv{program.data(), argument.data(), nullptr};
  pid_t pid = -1;
  const int failure = posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) {
    throw environment_error("could not start " + program + ": " + std::strerror(failure));
  }
  return pid;
}

// Everything up to the end of the stream; nothing when that did not come before the deadline.
std::optional<std::string> read_all(int fd, Clock::time_point deadline) {
  std::string all;
  std::array<char, 4096> buffer{};
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return std::nullopt;
    pollfd waiting{fd, POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(left)) <= 0) continue;
    const ssize_t count = read(fd, buffer.data(), buffer.size());
    if (count == 0) return all;
    if (count < 0 && errno != EINTR) return std::nullopt;
    if (count > 0) all.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

Probe parse_probe(const std::string& json) {
  try {
    const Json object = Json::parse(json);
    Probe probe;
    probe.libtorch = object.at("libtorch").get<std::string>();
    probe.cuda_built = text(object, "cuda_built");
    probe.cuda_driver = text(object, "cuda_driver");
    probe.cudnn = text(object, "cudnn");
    probe.nccl = text(object, "nccl");
    probe.openmp_threads = object.at("openmp_threads").get<int64_t>();
    for (const auto& gpu : object.at("gpus")) probe.gpus.push_back(parse_gpu(gpu));
    probe.cuda_error = text(object, "cuda_error");
    return probe;
  } catch (const Json::exception& failure) {
    throw environment_error(std::string("ampctl-worker --probe gave an answer that this version does not "
                                        "understand (do both programs come from one build?): ") +
                            failure.what());
  }
}

Probe run_probe(const std::filesystem::path& worker, std::chrono::seconds timeout) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw environment_error(std::string("could not make a pipe: ") + std::strerror(errno));
  }
  const FileDescriptor output(ends[0]);
  FileDescriptor input(ends[1]);
  Child child(start(worker, input.get()));
  input = FileDescriptor();
  const auto answer = read_all(output.get(), Clock::now() + timeout);
  if (!answer) {
    throw environment_error(worker.string() + " --probe did not answer within " +
                            std::to_string(timeout.count()) +
                            " s; a driver that hangs is the usual cause: look at the system's log");
  }
  const int status = child.wait();
  if (WIFSIGNALED(status)) {
    throw environment_error(worker.string() + " --probe was ended by signal " +
                            std::to_string(WTERMSIG(status)));
  }
  if (WEXITSTATUS(status) != kExitDone) {
    throw environment_error(worker.string() + " --probe failed with exit code " +
                            std::to_string(WEXITSTATUS(status)) +
                            "; its message is above. A missing shared library means that LibTorch moved "
                            "since the build");
  }
  return parse_probe(*answer);
}

}  // namespace ampctl::launch
