#include "dist/monitor.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "dist/beat.h"
#include "dist/bounded.h"
#include "dist/lifeline.h"
#include "dist/peers.h"
#include "dist/store.h"

namespace ampctl::dist {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

constexpr milliseconds kLook{100};
constexpr milliseconds kAnswer{1000};    // for the last words to the store, and at the end
constexpr milliseconds kConnect{10000};  // for a store connection of its own
constexpr milliseconds kReadBeats{5000};
constexpr size_t kNamedRanks = 16;

std::string whole_seconds(Clock::duration duration) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(duration).count()) + " s";
}

/// What all of the monitor's threads share; the one that beats may outlive the monitor, when the store hangs.
struct Shared {
  int64_t rank = 0;
  milliseconds interval{};
  StorePtr store;  // a connection of its own, so that nobody waits for the main thread's

  std::atomic<Phase> phase{Phase::start};
  std::atomic<int64_t> step{0};
  std::atomic<int64_t> progress{0};

  std::mutex mutex;
  std::condition_variable changed;
  bool ending = false;       // by mutex
  bool beating = false;      // by mutex: the beating thread runs
  std::string peer_failure;  // by mutex: the first sign of a failed peer; "" none

  [[nodiscard]] Beat beat(int64_t count) const { return {count, interval, phase.load(), step.load()}; }

  void peer_failed(const std::string& sign) {
    const std::lock_guard lock(mutex);
    if (peer_failure.empty()) peer_failure = sign;
  }
};

/// Notes of other ranks mean that they are about to end.
void look_for_notes(Shared& shared) {
  for (const auto& [rank, reason] : read_notes(*shared.store)) {
    if (rank == shared.rank) continue;
    shared.peer_failed("rank " + std::to_string(rank) + " reported: " + reason);
    return;
  }
}

bool left_in_order(const StorePtr& store, int64_t rank) {
  try {
    return run_within(kAnswer, [store, rank] { return store->check({ranked(keys::kLeaving, rank)}); })
        .value_or(false);
  } catch (const std::exception&) {
    return false;
  }
}

void keep_beating(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  for (int64_t count = 1; !shared->ending; ++count) {
    lock.unlock();
    try {
      write_beat(*shared->store, shared->rank, shared->beat(count));
      look_for_notes(*shared);
    } catch (const std::exception&) {
      shared->peer_failed("the store, which rank 0 holds, cannot be reached any more");
      lock.lock();
      break;
    }
    lock.lock();
    shared->changed.wait_for(lock, shared->interval, [&] { return shared->ending; });
  }
  shared->beating = false;
  shared->changed.notify_all();
}

}  // namespace

struct Monitor::State {
  const World& world;
  MonitorOptions options;
  std::shared_ptr<Shared> shared;
  std::unique_ptr<Lifeline> lifeline;
  std::thread watch;

  void watch_progress();
  [[nodiscard]] std::string report(const std::string& why) const;
  [[nodiscard]] std::string others_behind() const;
};

/// Looks ten times a second; asks for nothing that could block.
void Monitor::State::watch_progress() {
  auto last_progress = Clock::now();
  std::optional<Clock::time_point> failed_since;
  int64_t seen = 0;
  std::unique_lock lock(shared->mutex);
  while (!shared->changed.wait_for(lock, kLook, [&] { return shared->ending; })) {
    const auto now = Clock::now();
    if (std::exchange(seen, shared->progress.load()) != shared->progress.load()) last_progress = now;
    if (!shared->peer_failure.empty() && !failed_since) failed_since = now;
    std::string why;
    if (now - last_progress >= options.timeout) {
      why = "no progress for " + whole_seconds(now - last_progress);
    } else if (failed_since && now - std::max(*failed_since, last_progress) >= options.grace) {
      why = shared->peer_failure;
    }
    if (why.empty()) continue;
    lock.unlock();
    options.on_failure(report(why));
    return;
  }
}

std::string Monitor::State::report(const std::string& why) const {
  const Beat own = shared->beat(0);
  std::string text = "rank " + std::to_string(world.rank()) + " at " + describe(own) + ": " + why;
  if (world.size() == 1) return text;
  const std::string suspects = find_suspects(world);
  if (!suspects.empty()) text += "\n" + suspects;
  return text + others_behind();
}

std::string Monitor::State::others_behind() const {
  const auto beats = run_within(kReadBeats, [store = world.store(), size = world.size()] {
    try {
      return read_beats(*store, size);
    } catch (const std::exception&) {
      return std::vector<std::optional<Beat>>(static_cast<size_t>(size));
    }
  });
  if (!beats) return "";
  int64_t furthest = shared->step.load();
  for (const auto& beat : *beats) furthest = beat ? std::max(furthest, beat->step) : furthest;
  std::string text;
  size_t count = 0;
  for (size_t rank = 0; rank < beats->size(); ++rank) {
    const auto& beat = (*beats)[rank];
    if (!beat || beat->step == furthest || static_cast<int64_t>(rank) == world.rank()) continue;
    if (++count > kNamedRanks) continue;
    const auto number = static_cast<int64_t>(rank);
    text += "\n" + describe(number, world.processes()[rank]) + " is behind, at " + describe(*beat);
  }
  return count > kNamedRanks ? text + "\nand " + std::to_string(count - kNamedRanks) + " more" : text;
}

Monitor::Monitor(const World& world, MonitorOptions options)
    : state_(std::make_unique<State>(State{world, std::move(options), std::make_shared<Shared>(), {}, {}})) {
  auto& shared = state_->shared;
  shared->rank = world.rank();
  shared->interval = beat_interval(world.size());
  if (world.size() > 1) {
    auto connection = run_within(kConnect, [store = world.store()] { return store->clone(); });
    if (!connection)
      throw Error(ErrorKind::peer, "the store does not answer; rank 0, which holds it, may be stopped");
    shared->store = std::move(*connection);
    shared->beating = true;
    std::thread(keep_beating, shared).detach();
    state_->lifeline = std::make_unique<Lifeline>(world, [state = shared](int64_t rank, const std::string&) {
      if (!left_in_order(state->store, rank)) {
        state->peer_failed("the connection to rank " + std::to_string(rank) + " broke");
      }
    });
  }
  state_->watch = std::thread([state = state_.get()] { state->watch_progress(); });
}

Monitor::~Monitor() {
  const auto& shared = state_->shared;
  {
    const std::lock_guard lock(shared->mutex);
    shared->ending = true;
  }
  shared->changed.notify_all();
  state_->lifeline.reset();
  state_->watch.join();
  std::unique_lock lock(shared->mutex);
  shared->changed.wait_for(lock, kAnswer, [&] { return !shared->beating; });
}

void Monitor::at(Phase phase, int64_t step) noexcept {
  state_->shared->phase = phase;
  state_->shared->step = step;
  ++state_->shared->progress;
}

void Monitor::note_failure(const std::string& reason) noexcept {
  if (state_->world.size() == 1) return;
  try {
    run_within(kAnswer, [store = state_->world.store(), rank = state_->world.rank(), reason] {
      add_note(*store, rank, reason);
      return true;
    });
  } catch (const std::exception&) {
    // Without a store there is nobody to tell; the reason is reported here anyway.
  }
}

std::string Monitor::suspects() const {
  return state_->world.size() == 1 ? "" : find_suspects(state_->world);
}

}  // namespace ampctl::dist
