#include "ranks.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/host_name.h"
#include "base/version.h"
#include "config/walk.h"
#include "dist/collectives.h"
#include "dist/consistency.h"
#include "launch/error_file.h"
#include "launch/launch_job.h"

namespace ampctl::worker {
namespace {

constexpr double kMilliseconds = 1000.0;
// Libraries and data sets may be cold on one host and warm on another.
constexpr std::chrono::minutes kJoinTimeout{10};

// Preemption notices allow 20 s and more; who is at fault, and the launcher, take a few of them.
constexpr std::chrono::seconds kStopLimit{11};

dist::WorldOptions world_options(const launch::WorkerPlace& place, const config::DistributedConfig& config,
                                 c10::Device device) {
  dist::WorldOptions options;
  options.rank = place.rank;
  options.size = place.world_size;
  options.local_rank = place.local_rank;
  options.local_size = place.local_world_size;
  options.device = device;
  options.backend = backend_for(config, device);
  options.master_addr = place.master_addr;
  options.master_port = place.master_port;
  options.hosts_store = place.hosts_store;
  options.listen_fd = place.store_listen_fd;
  options.run_id = place.run_id;
  options.restart_count = place.restart_count;
  options.timeout = std::chrono::milliseconds(static_cast<int64_t>(config.timeout * kMilliseconds));
  options.join_timeout = std::min<std::chrono::milliseconds>(options.timeout, kJoinTimeout);
  return options;
}

dist::World join(const launch::WorkerPlace& place, const config::DistributedConfig& config,
                 c10::Device device) {
  if (place.world_size == 1) return dist::World::alone(device);
  return dist::World::join(world_options(place, config, device));
}

/// A rank's report on its start-up, as it travels: its host, then the reason; no reason: all is well.
struct StartReport {
  std::string host;
  std::string reason;

  [[nodiscard]] std::string to_text() const { return host + "\n" + reason; }
  static StartReport from_text(const std::string& text) {
    const auto end = text.find('\n');
    return {text.substr(0, end), text.substr(end + 1)};
  }
};

// Where data lies and how it is read may differ from host to host, and what is logged.
bool may_differ(const std::string& key) {
  constexpr std::array<std::string_view, 12> kLocal{"data.train.path",
                                                    "data.train.images",
                                                    "data.train.labels",
                                                    "data.eval.path",
                                                    "data.eval.images",
                                                    "data.eval.labels",
                                                    "data.num_workers",
                                                    "data.prefetch_factor",
                                                    "data.pin_memory",
                                                    "train.num_threads",
                                                    "output",
                                                    "log."};
  return std::ranges::any_of(kLocal, [&key](std::string_view local) { return key.starts_with(local); });
}

}  // namespace

std::string backend_for(const config::DistributedConfig& config, c10::Device device) {
  if (config.backend != "auto") return config.backend;
  return device.is_cuda() ? "nccl" : "gloo";
}

dist::DdpOptions ddp_options(const config::DistributedConfig& config) {
  using Compression = dist::DdpOptions::Compression;
  dist::DdpOptions options;
  options.bucket_cap_mb = config.bucket_cap_mb;
  options.gradient_as_bucket_view = config.gradient_as_bucket_view;
  options.find_unused_parameters = config.find_unused_parameters;
  options.broadcast_buffers = config.broadcast_buffers;
  if (config.gradient_compression == "float16") options.compression = Compression::float16;
  if (config.gradient_compression == "bfloat16") options.compression = Compression::bfloat16;
  return options;
}

Ranks::Ranks(const launch::WorkerPlace& place, const config::DistributedConfig& config, c10::Device device)
    : place_(place), world_(dist::World::alone(device)) {
  if (place_.launcher_fd) {
    launcher_ = std::make_unique<LauncherWatch>(*place_.launcher_fd, [this] {
      end_from_thread(
          "the launcher is gone (it was killed, or it crashed); "
          "its workers end. Start the same command again to go "
          "on from the latest checkpoint",
          true);
    });
  }
  world_ = join(place, config, device);
  if (world_.size() == 1) return;
  dist::MonitorOptions options;
  options.timeout = world_.timeout();
  options.on_failure = [this](const std::string& report) { end_from_thread(report); };
  monitor_ = std::make_unique<dist::Monitor>(world_, options);
}

Ranks::~Ranks() {
  launcher_.reset();
  monitor_.reset();
}

void Ranks::start_together(const std::function<void()>& body) {
  if (world_.size() == 1) return body();
  StartReport own{host_name(), ""};
  std::exception_ptr error;
  try {
    body();
  } catch (const std::exception& caught) {
    error = std::current_exception();
    own.reason = describe(caught).message;
  }
  std::vector<StartReport> reports;
  for (const auto& text : dist::gather_texts(world_, own.to_text()))
    reports.push_back(StartReport::from_text(text));
  const auto failed = [](const StartReport& report) { return !report.reason.empty(); };
  const auto first = std::ranges::find_if(reports, failed);
  if (first == reports.end()) return;

  // Each reason is said once a host: by the first rank that has it, else by the host's first rank.
  const auto speaks = [&](const StartReport& report) {
    return report.host == own.host && (failed(own) ? report.reason == own.reason : true);
  };
  const bool host_failed = std::ranges::any_of(
      reports, [&](const StartReport& report) { return report.host == own.host && failed(report); });
  quiet_ = std::ranges::find_if(reports, speaks) - reports.begin() != world_.rank() ||
           (host_failed && !failed(own));
  if (error) std::rethrow_exception(error);
  throw Error(ErrorKind::peer, "rank " + std::to_string(first - reports.begin()) + " on " + first->host +
                                   " could not start: " + first->reason);
}

void Ranks::require_same_plan(const config::RunPlan& plan) {
  dist::Facts facts{{"ampctl's version", std::string(kVersion) + " " + kCommit},
                    {"training samples", std::to_string(plan.train_samples)},
                    {"evaluation samples", std::to_string(plan.eval_samples)},
                    {"device", plan.device}};
  for (const auto& section : config::sections_of(plan.config)) {
    for (const auto& field : section.fields) {
      if (!may_differ(field.key)) facts.emplace_back(field.key, field.value);
    }
  }
  dist::require_equal(world_, facts, "what is to be trained");
}

std::unique_ptr<StopDeadline> Ranks::watch_stop(const std::atomic<bool>& requested,
                                                const train::Pulse& pulse) {
  if (world_.size() == 1) return nullptr;
  return std::make_unique<StopDeadline>(requested, pulse, kStopLimit, [this] {
    const std::string suspects = monitor_->suspects();
    end_from_thread(
        "asked to stop, but the ranks do not end their step together; what was trained since the last "
        "checkpoint is lost" +
        (suspects.empty() ? "" : ":\n" + suspects));
  });
}

void Ranks::leave() {
  monitor_.reset();
  launcher_.reset();
  world_.leave();
}

// From the error file, beside who failed first and what the others did.
bool Ranks::launcher_reports() const { return place_.launcher_fd && place_.error_file; }

void Ranks::end(const Failure& failure) {
  launcher_.reset();
  if (monitor_ != nullptr) monitor_->note_failure(failure.message);
  if (!quiet_ && !launcher_reports()) say(failure);
  if (place_.error_file) launch::write_error_file(*place_.error_file, failure.message, failure.exit_code);
  world_.abort();
  // Threads of the process group may still wait for a dead peer: nothing of theirs may be destroyed.
  std::_Exit(failure.exit_code);
}

void Ranks::end_from_thread(const std::string& message, bool launcher_is_gone) {
  const Failure failure{kExitPeer, message};
  if (launcher_is_gone || !launcher_reports()) say(failure);
  if (place_.error_file) launch::write_error_file(*place_.error_file, failure.message, failure.exit_code);
  std::_Exit(failure.exit_code);
}

}  // namespace ampctl::worker
