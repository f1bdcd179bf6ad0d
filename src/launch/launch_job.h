// Everything that one launcher's work needs, decided before anything starts.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launch/cpu_affinity.h"
#include "launch/environment.h"
#include "launch/launch_options.h"
#include "launch/local_world.h"

namespace ampctl::launch {

struct LaunchJob {
  std::filesystem::path worker;               ///< the program of every rank
  std::vector<std::string> command{"train"};  ///< its arguments before --config-fd N
  std::string config;                         ///< handed to each worker as that file
  Variables environment;                      ///< the launcher's own
  LaunchPlan plan;
  LocalWorld world;
  std::filesystem::path log_dir;
  std::string host;              ///< this machine's name, for messages
  std::vector<RankCpus> cpus;    ///< by local rank; empty: nothing is known
  int64_t threads_per_rank = 1;  ///< OMP_NUM_THREADS, where the user set none
  bool quiet = false;            ///< what is no error is only for launcher.log
};

}  // namespace ampctl::launch
