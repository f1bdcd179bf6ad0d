#include "launch/attempt.h"

#include <algorithm>
#include <array>
#include <csignal>

#include <poll.h>
#include <unistd.h>

#include "base/error.h"
#include "launch/child_process.h"
#include "launch/error_file.h"
#include "launch/rank_files.h"
#include "launch/store_socket.h"
#include "launch/worker_process.h"
#include "launch/worker_variables.h"

namespace ampctl::launch {
namespace {

using std::chrono::milliseconds;

// Where the system does not tell which files have grown, and where the terminal takes no more for now.
constexpr milliseconds kLookAgain(200);

Streams to_file(const LaunchPlan& plan, int64_t rank, int64_t local_rank) {
  if (rank != 0) return {true, true};
  const Streams redirected = plan.redirects.of(local_rank).value_or(Streams{});
  const Streams teed = plan.tee.of(local_rank).value_or(Streams{});
  return {redirected.out || teed.out, redirected.err || teed.err};
}

Streams repeated(const LaunchPlan& plan, int64_t rank, int64_t local_rank) {
  const Streams teed = plan.tee.of(local_rank).value_or(Streams{});
  if (rank == 0) return teed;
  const Streams silent = plan.redirects.of(local_rank).value_or(Streams{true, false});
  return {!silent.out || teed.out, !silent.err || teed.err};
}

}  // namespace

Attempt::Attempt(const LaunchJob& job, int64_t number, const LauncherSignals& signals, int launcher_fd,
                 const Patience& patience)
    : job_(job),
      number_(number),
      signals_(signals),
      launcher_fd_(launcher_fd),
      patience_(patience),
      started_(Clock::now()) {}

Attempt::~Attempt() {
  if (running_.empty()) return;
  signal_all(SIGKILL);
  while (!running_.empty()) wait_for_events();
}

AttemptResult Attempt::run() {
  start_all();
  while (!running_.empty()) {
    wait_for_events();
    act_on_time();
  }
  tails_.finish();
  return std::move(result_);
}

// The store's socket is closed here at the end: rank 0 has it then, and the port must be free when that ends.
void Attempt::start_all() {
  const bool has_rank_zero = job_.world.first_rank == 0;
  StoreSocket store;
  if (has_rank_zero) store = open_store_socket(job_.plan.master_addr, job_.plan.master_port);
  const uint16_t port = has_rank_zero ? store.port : job_.plan.master_port.value_or(0);
  for (int64_t local_rank = 0; local_rank < job_.world.local_world_size; ++local_rank) {
    start(local_rank, port, has_rank_zero && local_rank == 0 ? store.fd.get() : -1);
  }
}

void Attempt::start(int64_t local_rank, uint16_t port, int store_fd) {
  const int64_t rank = job_.world.first_rank + local_rank;
  const RankFiles files = rank_files(job_.log_dir, number_, rank);
  prepare(files);
  const FileDescriptor config(make_inherited_file("ampctl-config", job_.config));

  ChildCommand command;
  command.program = job_.worker;
  command.arguments = job_.command;
  command.arguments.insert(command.arguments.end(), {"--config-fd", std::to_string(config.get())});
  command.environment =
      worker_variables(job_, {local_rank, number_, port, store_fd, launcher_fd_, files.error});
  command.inherited = {config.get(), launcher_fd_};
  if (store_fd >= 0) command.inherited.push_back(store_fd);
  if (!job_.cpus.empty()) command.cpus = job_.cpus.at(static_cast<std::size_t>(local_rank)).cpus;

  std::vector<FileDescriptor> opened;
  const Streams file = to_file(job_.plan, rank, local_rank);
  const Streams shown = repeated(job_.plan, rank, local_rank);
  command.out = stream(files.out, file.out, shown.out, STDOUT_FILENO, rank, opened);
  command.err = stream(files.err, file.err, shown.err, STDERR_FILENO, rank, opened);
  running_[start_child(command)] = rank;
}

int Attempt::stream(const std::filesystem::path& path, bool to_file, bool repeated, int target, int64_t rank,
                    std::vector<FileDescriptor>& opened) {
  if (!to_file) return -1;
  opened.push_back(open_log(path));
  if (repeated) tails_.add(path, "[rank" + std::to_string(rank) + "] ", target);
  return opened.back().get();
}

int Attempt::timeout() const {
  std::optional<Clock::time_point> next = ask_at_;
  if (kill_at_ && (!next || *kill_at_ < *next)) next = kill_at_;
  constexpr int kForever = -1;
  int64_t wait = kForever;
  if (next) {
    wait = std::max<int64_t>(0, std::chrono::ceil<milliseconds>(*next - Clock::now()).count());
  }
  if (tails_behind_ || tails_.fd() < 0) {
    wait = wait < 0 ? kLookAgain.count() : std::min<int64_t>(wait, kLookAgain.count());
  }
  return static_cast<int>(wait);
}

void Attempt::wait_for_events() {
  std::array<pollfd, 2> waiting{{{signals_.fd(), POLLIN, 0}, {tails_.fd(), POLLIN, 0}}};
  poll(waiting.data(), waiting.size(), timeout());
  take_signals();
  take_ends();
  tails_behind_ = !tails_.pump();
}

void Attempt::take_signals() {
  for (const int number : signals_.take()) {
    if (number == SIGCHLD) continue;
    if (!result_.requested) result_.requested = number;
    signal_all(number);
    // The second Ctrl-C means now, to workers as well; what does not obey is killed.
    if (number == SIGINT && ++interrupts_ > 1) end_rest();
  }
}

void Attempt::take_ends() {
  while (const auto end = next_end()) {
    const auto worker = running_.find(end->pid);
    if (worker == running_.end()) continue;
    WorkerEnd seen;
    seen.rank = worker->second;
    seen.pid = end->pid;
    seen.exit_code = end->exit_code;
    seen.signal = end->signal;
    seen.seconds = std::chrono::duration<double>(Clock::now() - started_).count();
    seen.ended_by_us = ending_;
    running_.erase(worker);
    note_end(seen);
  }
}

void Attempt::note_end(const WorkerEnd& end) {
  result_.ends.push_back(end);
  const auto error = read_error_file(rank_files(job_.log_dir, number_, end.rank).error);
  if (error) result_.ends.back().message = error->message;
  failed_ = failed_ || end.failed();
  if (ending_) return;
  // Whoever was preempted alone, before all had met, leaves the others waiting: they are asked as well.
  const bool tells_others = end.failed() || end.exit_code == kExitPreempted;
  const auto at = Clock::now() + (tells_others ? patience_.settle : patience_.farewell);
  ask_at_ = std::min(ask_at_.value_or(at), at);
}

void Attempt::act_on_time() {
  const auto now = Clock::now();
  if (ask_at_ && now >= *ask_at_) {
    ask_at_.reset();
    for (const auto& [pid, rank] : running_) {
      if (is_stopped(pid)) result_.stopped.push_back(rank);
    }
    signal_all(SIGTERM);
    signal_all(SIGCONT);
    if (failed_ || all_done()) end_rest();
  }
  if (kill_at_ && now >= *kill_at_) {
    kill_at_.reset();
    signal_all(SIGKILL);
  }
}

bool Attempt::all_done() const {
  return std::all_of(result_.ends.begin(), result_.ends.end(),
                     [](const WorkerEnd& end) { return end.signal == 0 && end.exit_code == kExitDone; });
}

void Attempt::end_rest() {
  if (ending_) return;
  ending_ = true;
  kill_at_ = Clock::now() + patience_.ending;
}

void Attempt::signal_all(int number) const {
  for (const auto& [pid, rank] : running_) signal_child(pid, number);
}

}  // namespace ampctl::launch
