// How an attempt's workers ended, and what follows from that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace ampctl::launch {

/// One worker's end: by a signal, or else with an exit code.
struct WorkerEnd {
  int64_t rank = 0;
  pid_t pid = -1;
  int exit_code = 0;
  int signal = 0;
  double seconds = 0.0;      ///< since the attempt began
  bool ended_by_us = false;  ///< after the launcher had begun to end the rest
  std::string message;       ///< from its error file

  [[nodiscard]] bool failed() const;
};

struct AttemptResult {
  std::vector<WorkerEnd> ends;   ///< in the order in which they were seen
  std::vector<int64_t> stopped;  ///< ranks found stopped (SIGSTOP) when others had failed
  std::optional<int> requested;  ///< the signal by which the launcher was asked to stop
};

struct Verdict {
  int exit_code = 0;               ///< the launcher's, unless it restarts
  std::optional<WorkerEnd> cause;  ///< of a failure
  bool restartable = false;        ///< the environment's or a peer's failure, or a signal
};

/// All done: 0. All done or preempted: 75. Otherwise the cause decides, the earliest end among those that the
/// launcher did not bring about; one with exit code 5, which only tells that a peer has failed, is none while
/// there is another. Its exit code is the launcher's; ended by a signal: 5, or 128 + N when the launcher was
/// asked to stop by signal N and the worker ended by that. After a request to stop nothing is restartable.
[[nodiscard]] Verdict judge(const AttemptResult& result);

/// What somebody must know about a failure: which rank, where, how, when, why; what the others did, and say
/// when theirs is another reason.
/// `logs` is where the cause's output lies; "" when it went to the terminal.
[[nodiscard]] std::string failure_report(const AttemptResult& result, const WorkerEnd& cause,
                                         const std::string& host, const std::string& logs);

/// "0-3,8"
[[nodiscard]] std::string ranks_text(std::vector<int64_t> ranks);

}  // namespace ampctl::launch
