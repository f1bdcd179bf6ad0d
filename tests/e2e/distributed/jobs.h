// Trainings of several processes, each found again by a variable that all its processes inherit.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "e2e/train/runs.h"

namespace ampctl::test {

constexpr int kPeer = 5;
/// Longer than the end of any job after a fault takes here, its timeout not counted.
constexpr std::chrono::seconds kEnd{30};
/// What a joined float32 training may differ by: only the order of sums is another.
constexpr double kRounding = 1e-5;

/// 50 steps of 24 samples in float32 without dropout, with augmentation, from 193 or any number of images:
/// the 193rd makes a window of a single sample at each epoch's end.
extern const char* const kJoinedMlp;
/// The same with lenet on images of 28 x 28 pixels.
extern const char* const kJoinedLeNet;
/// For kJoinedLeNet; 197 leaves a window of 5 samples.
[[nodiscard]] Images images_of(int count, int size);

/// The arguments that make `distributed.world_size` processes of a command.
[[nodiscard]] std::vector<std::string> ranks(std::vector<std::string> command, int count);
[[nodiscard]] std::vector<std::string> joined(std::vector<std::string> first,
                                              const std::vector<std::string>& second);

/// Relative L2 distance of all weights of two checkpoints together.
[[nodiscard]] double weights_distance(const fs::path& a, const fs::path& b);

/// A command running with everything that it starts.
class Job {
 public:
  Job(const Workspace& workspace, const std::string& name, const std::vector<std::string>& command,
      std::vector<std::string> env = {});
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// To the command itself: the launcher.
  void signal(int number) const { process_.signal(number); }
  std::optional<int> wait(std::chrono::milliseconds timeout) { return process_.wait(timeout); }
  /// Exit code of the command, -1 when it does not end.
  int exit_code(std::chrono::milliseconds timeout = kRunLimit) { return wait(timeout).value_or(-1); }
  [[nodiscard]] std::string output() const { return process_.output(); }

  /// All living processes of the job, the command among them.
  [[nodiscard]] std::vector<pid_t> processes() const;
  /// The worker of that rank; nothing while it has not begun, and when it has ended.
  [[nodiscard]] std::optional<pid_t> worker(int64_t rank) const;
  void signal_worker(int64_t rank, int number) const;
  /// Whether every process is gone within `timeout`.
  [[nodiscard]] bool all_gone(std::chrono::milliseconds timeout = kEnd) const;

 private:
  std::string tag_;
  BackgroundProcess process_;
};

/// What the ranks other than 0 wrote to files of their own, in the first attempt and later ones.
[[nodiscard]] std::string rank_logs(const fs::path& run, int64_t rank);

/// Every checkpoint of the run verifies, and no unfinished one lies there.
void check_no_torn_checkpoint(const fs::path& run);

}  // namespace ampctl::test
