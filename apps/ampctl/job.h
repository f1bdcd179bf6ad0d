// What the front end hands to the launcher.
#pragma once

#include <vector>

#include "config/experiment_config.h"
#include "launch/environment.h"
#include "launch/launch_job.h"
#include "launch/launch_options.h"
#include "launch/visible_gpus.h"

namespace ampctl::cli {

/// One process a rank on this machine, near its GPU, for this configuration. Throws what local_world() and
/// find_worker() throw.
[[nodiscard]] launch::LaunchJob make_job(const config::ExperimentConfig& config,
                                         const launch::LaunchPlan& plan, const launch::Variables& variables);

}  // namespace ampctl::cli
