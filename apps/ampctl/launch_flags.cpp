#include "launch_flags.h"

#include <string>

#include <CLI/CLI.hpp>

namespace ampctl::cli {

void add_launch_flags(CLI::App* command, launch::LaunchOptions& options) {
  const auto flag = [&](const char* names, std::optional<std::string>& value, const char* type,
                        const char* description) {
    command->add_option(names, value, description)->type_name(type)->group("Several processes");
  };
  flag("--nnodes", options.nnodes, "N", "Machines; each is given the same command but for --node-rank");
  flag("--nproc-per-node", options.nproc_per_node, "auto|gpu|N",
       "Processes on this machine; auto: one a visible GPU, or distributed.world_size");
  flag("--node-rank", options.node_rank, "N", "Which machine this is, from 0");
  flag("--rdzv-endpoint", options.rdzv_endpoint, "HOST",
       "HOST or HOST:PORT of machine 0, where the processes meet");
  flag("--rdzv-id", options.rdzv_id, "TEXT", "The job's name");
  flag("--master-addr", options.master_addr, "HOST", "HOST of machine 0, instead of --rdzv-endpoint");
  flag("--master-port", options.master_port, "N", "The port there");
  flag("--max-restarts", options.max_restarts, "N",
       "Starts again after failures that may pass: environment, peers, signals (one machine)");
  flag("--log-dir", options.log_dir, "FOLDER", "Output of the processes; default: logs in the run's folder");
  flag("--redirects", options.redirects, "0|1|2|3",
       "Only to files: 1 stdout, 2 stderr, 3 both, or by local rank: 0:3,1:2");
  flag("--tee", options.tee, "0|1|2|3", "To files and, prefixed by rank, to the terminal; as --redirects");
  command->add_flag("--standalone", options.standalone, "One machine, and any free port (the default)")
      ->group("Several processes");
}

}  // namespace ampctl::cli
