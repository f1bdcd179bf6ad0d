#include "dist/world.h"

#include <algorithm>
#include <thread>
#include <utility>

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "base/error.h"
#include "dist/bounded.h"
#include "dist/peers.h"
#include "dist/process_groups.h"
#include "dist/store.h"

namespace ampctl::dist {
namespace {

using Clock = std::chrono::steady_clock;
using Group = c10::intrusive_ptr<c10d::ProcessGroup>;
using Store = c10::intrusive_ptr<c10d::Store>;

/// Beyond the join's own deadline, so that the errors that know what is missing come first.
constexpr std::chrono::seconds kJoinSlack{10};
constexpr std::chrono::milliseconds kGoodbyePoll{20};
/// Ranks of other hosts find out through rank 0's store who is at fault.
constexpr std::chrono::seconds kLastWords{3};

/// Never destroyed. Gloo's destructor waits for every operation that was posted, up to its timeout, also when
/// the peer is dead.
template <class Handle>
void give_up(Handle& handle) noexcept {
  if (handle.defined()) static_cast<void>(handle.release());
}

void check(const WorldOptions& options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    throw usage_error("expected a rank from 0 to world size - 1, found rank " + std::to_string(options.rank) +
                      " of " + std::to_string(options.size) + "; check RANK and WORLD_SIZE");
  }
  if (options.backend != "nccl" && options.backend != "gloo") {
    throw usage_error("distributed.backend: expected nccl or gloo, found '" + options.backend + "'");
  }
  if (options.backend == "nccl" && !options.device.is_cuda()) {
    throw usage_error("distributed.backend: nccl needs device: cuda, found " + options.device.str() +
                      "; set distributed.backend: gloo or auto");
  }
  if (options.size > 1 && options.master_port == 0 && !options.listen_fd) {
    throw usage_error("the master's port is missing; set MASTER_PORT");
  }
}

struct Joined {
  Store store;
  Group group;
  Group control;
  std::vector<PeerProcess> processes;
};

Joined meet_and_connect(const WorldOptions& options, Clock::time_point deadline) {
  const OpenedStore opened = open_store(options, deadline);
  Joined joined{opened.store, {}, {}, meet(opened.store, options, deadline)};
  opened.store->setTimeout(options.timeout);
  const auto part = [&](const char* name) {
    return GroupOptions{c10::make_intrusive<c10d::PrefixStore>(name, opened.store), options.rank,
                        options.size, options.timeout};
  };
  joined.control = make_gloo_group(part("control"), c10::kCPU, opened.local_address);
  joined.group = options.backend == "nccl"
                     ? make_nccl_group(part("device"), options.device)
                     : make_gloo_group(part("device"), options.device, opened.local_address);
  return joined;
}

bool all_ended(const std::vector<PeerProcess>& others) {
  return std::all_of(others.begin(), others.end(),
                     [](const PeerProcess& other) { return state_of(other) == ProcessState::gone; });
}

bool everybody_left(c10d::Store& store, const std::vector<PeerProcess>& others, Clock::time_point deadline) {
  while (store.add(keys::kLeft, 0) < static_cast<int64_t>(others.size())) {
    if (Clock::now() >= deadline || all_ended(others)) return false;
    std::this_thread::sleep_for(kGoodbyePoll);
  }
  return true;
}

bool any_elsewhere(const std::vector<PeerProcess>& processes) {
  return std::any_of(processes.begin(), processes.end(),
                     [](const PeerProcess& process) { return state_of(process) == ProcessState::unknown; });
}

}  // namespace

struct World::State {
  WorldOptions options;
  Joined joined;
  std::optional<c10::Event> graph_end = {};  // of the graph launched last
  bool graph_may_run = false;                // nobody has waited for it yet
};

World::World(std::unique_ptr<State> state) : state_(std::move(state)) {}
World::World(World&&) noexcept = default;
World& World::operator=(World&& other) noexcept {
  if (this != &other) {
    abort();
    state_ = std::move(other.state_);
  }
  return *this;
}
World::~World() { abort(); }

World World::alone(c10::Device device) {
  WorldOptions options;
  options.device = device;
  return World(std::make_unique<State>(State{options, {}}));
}

World World::join(const WorldOptions& options) {
  check(options);
  if (options.size == 1) return alone(options.device);
  try {
    const auto deadline = Clock::now() + options.join_timeout;
    auto joined = run_within(options.join_timeout + kJoinSlack,
                             [options, deadline] { return meet_and_connect(options, deadline); });
    if (!joined) {
      throw Error(ErrorKind::peer,
                  "the ranks met at " + options.master_addr + ":" + std::to_string(options.master_port) +
                      " but did not connect within " + std::to_string(options.join_timeout.count() / 1000) +
                      " s; a rank may have stopped, or a firewall lets only the master's port through");
    }
    return World(std::make_unique<State>(State{options, std::move(*joined)}));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorKind::peer, "joining the other ranks at " + options.master_addr + ":" +
                                     std::to_string(options.master_port) +
                                     " failed: " + transport_message(error) +
                                     "; a rank may have ended, see the logs of the others");
  }
}

int64_t World::rank() const { return state_->options.rank; }
int64_t World::size() const { return state_->options.size; }
c10::Device World::device() const { return state_->options.device; }
std::chrono::milliseconds World::timeout() const { return state_->options.timeout; }
Group World::group() const { return state_->joined.group; }
Group World::control() const { return state_->joined.control; }
Store World::store() const { return state_->joined.store; }
bool World::rank_0_holds_store() const { return size() > 1 && state_->options.hosts_store; }
const std::vector<PeerProcess>& World::processes() const { return state_->joined.processes; }

void World::launched_graph() const {
  const c10::Device device = state_->options.device;
  if (!state_->graph_end) state_->graph_end.emplace(device.type());
  state_->graph_end->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  state_->graph_may_run = true;
}

void World::settle() const {
  if (std::exchange(state_->graph_may_run, false)) state_->graph_end->synchronize();
}

void World::leave() {
  if (!state_ || !state_->joined.store.defined()) return;
  const WorldOptions options = state_->options;
  Joined joined = std::exchange(state_->joined, {});
  const auto deadline = Clock::now() + kLeaveTimeout;
  // All of it may wait for peers: for operations still posted, for the store that rank 0 holds.
  run_within(kLeaveTimeout, [options, deadline, joined = std::move(joined)]() mutable {
    try {
      joined.store->set(ranked(keys::kLeaving, options.rank), std::string("1"));
      joined.group->shutdown();
      joined.group.reset();
      joined.control.reset();
      const bool holds_store = options.rank == 0 && options.hosts_store;
      if (holds_store) {
        return everybody_left(*joined.store, {joined.processes.begin() + 1, joined.processes.end()},
                              deadline);
      }
      joined.store->add(keys::kLeft, 1);
    } catch (const std::exception&) {
      // A peer that ended first is no failure at the end: nothing is left to be done with it.
      return false;
    }
    return true;
  });
}

void World::abort() noexcept {
  if (!state_ || !state_->joined.store.defined()) return;
  try {
    if (rank_0_holds_store() && is_main() && any_elsewhere(processes()))
      std::this_thread::sleep_for(kLastWords);
    // Only NCCL's does anything; it can hang inside the driver.
    run_within(kLeaveTimeout, [group = state_->joined.group] {
      group->abort();
      return true;
    });
  } catch (...) {
    // The process is about to end; what the group says about its own end helps nobody.
  }
  give_up(state_->joined.group);
  give_up(state_->joined.control);
  give_up(state_->joined.store);
}

}  // namespace ampctl::dist
