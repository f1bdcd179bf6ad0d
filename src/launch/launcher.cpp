#include "launch/launcher.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "launch/journal.h"
#include "launch/rank_files.h"

namespace ampctl::launch {
namespace fs = std::filesystem;
namespace {

// Both ends close with this process; only the read end is handed on.
struct LifeLine {
  FileDescriptor read_end;
  FileDescriptor write_end;

  LifeLine() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw environment_error(std::string("could not make a pipe: ") + std::strerror(errno));
    }
    read_end = FileDescriptor(ends[0]);
    write_end = FileDescriptor(ends[1]);
  }
};

Journal open_journal(const LaunchJob& job) {
  std::error_code failure;
  fs::create_directories(job.log_dir, failure);
  if (failure) throw file_error("create folder", job.log_dir, failure.value());
  // Nodes may share the folder.
  const std::string node = job.plan.node_rank == 0 ? "" : "-node" + std::to_string(job.plan.node_rank);
  return Journal(job.log_dir / ("launcher" + node + ".log"), job.quiet);
}

std::string processes(int64_t count) {
  return std::to_string(count) + (count == 1 ? " process" : " processes");
}

std::string ranks_here(const LaunchJob& job) {
  const int64_t first = job.world.first_rank;
  const int64_t last = first + job.world.local_world_size - 1;
  return (first == last ? "rank " + std::to_string(first)
                        : "ranks " + std::to_string(first) + "-" + std::to_string(last)) +
         " of " + std::to_string(job.world.world_size);
}

void say_start(const LaunchJob& job, const Journal& journal) {
  journal.note("starting " + processes(job.world.local_world_size) + " on " + job.host + ": " +
               ranks_here(job) + "; logs in " + job.log_dir.string());
  if (find(job.environment, "OMP_NUM_THREADS") == nullptr) {
    journal.note("OMP_NUM_THREADS=" + std::to_string(job.threads_per_rank) +
                 " for each process, its share of the CPUs; set OMP_NUM_THREADS to choose otherwise");
  }
  bool placed = false;
  for (std::size_t local_rank = 0; local_rank < job.cpus.size(); ++local_rank) {
    const RankCpus& place = job.cpus[local_rank];
    if (place.cpus.empty()) continue;
    placed = true;
    journal.record("rank " + std::to_string(job.world.first_rank + static_cast<int64_t>(local_rank)) +
                   " runs on CPUs " + to_text(place.cpus) +
                   (place.numa_node < 0 ? "" : " of NUMA node " + std::to_string(place.numa_node)));
  }
  if (placed) {
    journal.note("each process runs on CPUs near its GPU; launcher.log lists them");
  } else {
    journal.record("no process is bound to CPUs: nothing is known about which are near which GPU");
  }
}

// Where the rank's own lines are; "" when there are none, or they went to the terminal.
std::string log_of(const LaunchJob& job, int64_t attempt, int64_t rank) {
  const fs::path path = rank_files(job.log_dir, attempt, rank).err;
  std::error_code absent;
  const auto size = fs::file_size(path, absent);
  return !absent && size > 0 ? path.string() : "";
}

void say_failure(const LaunchJob& job, int64_t attempt, const AttemptResult& result, const Verdict& verdict,
                 bool again, const Journal& journal) {
  std::string text =
      failure_report(result, *verdict.cause, job.host, log_of(job, attempt, verdict.cause->rank));
  const std::string used = std::to_string(attempt) + " of " + std::to_string(job.plan.max_restarts);
  if (again) {
    journal.error(text);
    journal.note("restart " + std::to_string(attempt + 1) + " of " + std::to_string(job.plan.max_restarts) +
                 " (from the latest checkpoint, where there is one)");
    return;
  }
  if (verdict.restartable) text += "\n  restarts used: " + used + " (--max-restarts)";
  journal.error(text);
}

}  // namespace

int run_job(const LaunchJob& job, const Patience& patience) {
  const LauncherSignals signals;
  const LifeLine life;
  const Journal journal = open_journal(job);
  say_start(job, journal);
  for (int64_t attempt = 0;; ++attempt) {
    const AttemptResult result = Attempt(job, attempt, signals, life.read_end.get(), patience).run();
    const Verdict verdict = judge(result);
    const bool again = verdict.restartable && attempt < job.plan.max_restarts;
    if (verdict.cause) say_failure(job, attempt, result, verdict, again, journal);
    if (again) continue;
    journal.record("all processes have ended; exit code " + std::to_string(verdict.exit_code));
    return verdict.exit_code;
  }
}

}  // namespace ampctl::launch
