// This process among the ranks that train together: joining, starting together, ending alike.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <c10/core/Device.h>

#include "config/experiment_config.h"
#include "config/run_plan.h"
#include "dist/distributed_data_parallel.h"
#include "dist/monitor.h"
#include "dist/world.h"
#include "failure.h"
#include "launch/worker_place.h"
#include "launcher_watch.h"
#include "stop_deadline.h"
#include "train/pulse.h"

namespace ampctl::worker {

class Ranks {
 public:
  /// Joins the world that `place` describes; a world of one joins nobody. From here on a hang and the
  /// launcher's end finish the process (exit code 5) with a message.
  Ranks(const launch::WorkerPlace& place, const config::DistributedConfig& config, c10::Device device);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  [[nodiscard]] const dist::World& world() const { return world_; }
  [[nodiscard]] dist::Monitor* monitor() { return monitor_.get(); }

  /// Runs this rank's part of the start-up (`body`). When it fails on any rank it fails on all: with its own
  /// error here, or a peer error that names the rank, its host and its reason. One rank a host says each
  /// reason.
  void start_together(const std::function<void()>& body);

  /// Refuses, on every rank and before the first step, ranks that differ in configuration, data or version.
  void require_same_plan(const config::RunPlan& plan);

  /// While what this returns exists, a request to stop that the trainer does not act upon in time (a peer
  /// that is stopped, or a read that hangs somewhere) ends the process with 5. Null alone: there is nobody to
  /// wait for.
  [[nodiscard]] std::unique_ptr<StopDeadline> watch_stop(const std::atomic<bool>& requested,
                                                         const train::Pulse& pulse);

  /// The orderly end.
  void leave();

  /// Ends the process: leaves the reason for the other ranks, for the launcher, and on standard error.
  [[noreturn]] void end(const Failure& failure);

 private:
  [[nodiscard]] bool launcher_reports() const;
  [[noreturn]] void end_from_thread(const std::string& message, bool launcher_is_gone = false);

  launch::WorkerPlace place_;
  dist::World world_;
  std::unique_ptr<dist::Monitor> monitor_;
  std::unique_ptr<LauncherWatch> launcher_;
  bool quiet_ = false;  // another rank of this host says why the start-up failed
};

/// nccl | gloo, as configured or as fits the device.
std::string backend_for(const config::DistributedConfig& config, c10::Device device);

dist::DdpOptions ddp_options(const config::DistributedConfig& config);

}  // namespace ampctl::worker
