// Starts a job's workers on this machine, and starts them again after a failure that may pass.
#pragma once

#include "launch/attempt.h"
#include "launch/launch_job.h"

namespace ampctl::launch {

/// Runs the job to its end and returns the exit code that stands for all its workers (judge()). Attempts
/// follow one another while one fails for a reason that may pass and --max-restarts allows. Whatever there is
/// to say goes to standard error and <log_dir>/launcher.log. Throws an environment error when the workers
/// cannot be started.
[[nodiscard]] int run_job(const LaunchJob& job, const Patience& patience = {});

}  // namespace ampctl::launch
