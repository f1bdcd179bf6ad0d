// One attempt of a job: its workers started, watched, and ended together.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <sys/types.h>

#include "launch/attempt_result.h"
#include "launch/launch_job.h"
#include "launch/launcher_signals.h"
#include "launch/tail.h"

namespace ampctl::launch {

/// How long the launcher waits at each turn.
struct Patience {
  /// After a first failure, for the others' own ends: the cause may be reported after its consequences.
  std::chrono::milliseconds settle{1000};
  /// From the request to end, after a failure, to SIGKILL.
  std::chrono::milliseconds ending{10000};
  /// After a first rank is done, for the others, which leave together: one that is stopped or hangs in its
  /// last moments would be waited for for ever.
  std::chrono::milliseconds farewell{15000};
};

class Attempt {
 public:
  using Clock = std::chrono::steady_clock;

  /// `launcher_fd`: read end of the pipe that ends with the launcher. What it refers to outlives it.
  Attempt(const LaunchJob& job, int64_t number, const LauncherSignals& signals, int launcher_fd,
          const Patience& patience);
  /// Kills what still runs.
  ~Attempt();
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  /// Starts the workers and waits until the last has ended. A failure of one ends the others: after
  /// `settle` by SIGTERM, then by SIGKILL; and so does the end of one that is done, after `farewell`.
  /// SIGTERM, SIGINT and SIGUSR1 are passed on to all. Throws an environment error when they cannot be
  /// started.
  [[nodiscard]] AttemptResult run();

 private:
  void start_all();
  void start(int64_t local_rank, uint16_t port, int store_fd);
  int stream(const std::filesystem::path& path, bool to_file, bool repeated, int target, int64_t rank,
             std::vector<FileDescriptor>& opened);
  void wait_for_events();
  [[nodiscard]] int timeout() const;
  void take_signals();
  void take_ends();
  void note_end(const WorkerEnd& end);
  void act_on_time();
  [[nodiscard]] bool all_done() const;
  void end_rest();
  void signal_all(int number) const;

  const LaunchJob& job_;
  int64_t number_;
  const LauncherSignals& signals_;
  int launcher_fd_;
  Patience patience_;
  Clock::time_point started_;
  std::map<pid_t, int64_t> running_;  ///< rank by process id
  Tails tails_;
  bool tails_behind_ = false;
  AttemptResult result_;
  int interrupts_ = 0;
  bool failed_ = false;
  bool ending_ = false;                       ///< the launcher has begun to end the rest
  std::optional<Clock::time_point> ask_at_;   ///< when the others are asked to end
  std::optional<Clock::time_point> kill_at_;  ///< when they are killed
};

}  // namespace ampctl::launch
