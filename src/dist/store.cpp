#include "dist/store.h"

#include <algorithm>
#include <thread>

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/error.h"
#include "dist/bounded.h"
#include "dist/rendezvous_socket.h"

namespace ampctl::dist {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr const char* kMet = "1";
constexpr size_t kNamedRanks = 16;
constexpr milliseconds kAnswer{2000};  // so that an error about the deadline comes before this folder's own

milliseconds until(Clock::time_point deadline) {
  return std::max(std::chrono::duration_cast<milliseconds>(deadline - Clock::now()), milliseconds(1));
}

std::string place(const WorldOptions& options) {
  return options.master_addr + ":" + std::to_string(options.master_port);
}

std::string prefix(const WorldOptions& options) {
  return "ampctl/" + options.run_id + "/" + std::to_string(options.restart_count);
}

OpenedStore host_store(const WorldOptions& options, c10d::TCPStoreOptions store_options) {
  const bool anywhere = options.size > options.local_size && is_loopback(options.master_addr);
  Listener listener = options.listen_fd ? adopt_listener(*options.listen_fd)
                                        : listen_at(options.master_addr, options.master_port, anywhere);
  store_options.isServer = true;
  store_options.port = listener.port;
  const bool one_host = options.size <= options.local_size;
  const std::string reached_at = listener.address.empty() ? "127.0.0.1" : listener.address;
  store_options.masterListenFd = listener.fd.release();
  return {c10::make_intrusive<c10d::TCPStore>(reached_at, store_options),
          listener.address.empty() && one_host ? "127.0.0.1" : listener.address};
}

std::string list_missing(c10d::Store& store, int64_t size) {
  std::string missing;
  size_t count = 0;
  for (int64_t rank = 0; rank < size; ++rank) {
    if (store.check({ranked(keys::kPresent, rank)})) continue;
    if (++count <= kNamedRanks) missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (count > kNamedRanks) missing += " and " + std::to_string(count - kNamedRanks) + " more";
  return (count == 1 ? "rank " : "ranks ") + missing;
}

/// Sets `key` where nobody has; else what somebody has.
std::string claim(c10d::Store& store, const std::string& key, const std::string& value) {
  return store.compareSet(key, "", value);
}

void sign_in(c10d::Store& store, const WorldOptions& options) {
  const std::string size = std::to_string(options.size);
  const std::string agreed = claim(store, keys::kSize, size);
  if (agreed != size) {
    store.set(keys::kComplete, "rank " + std::to_string(options.rank) + " was started for a world of " +
                                   size + ", another rank for one of " + agreed + " (" + place(options) +
                                   "); start all ranks with the same WORLD_SIZE");
    return;
  }
  const std::string self = PeerProcess::self().to_line();
  const std::string there = claim(store, ranked(keys::kPresent, options.rank), self);
  if (there != self) {
    throw usage_error("there are two processes of rank " + std::to_string(options.rank) + " at " +
                      place(options) + ": this one and " +
                      describe(options.rank, PeerProcess::from_line(there)) +
                      "; give every process its own RANK, and every run its own port or run id");
  }
  if (store.add(keys::kCount, 1) == options.size) store.set(keys::kComplete, std::string(kMet));
}

}  // namespace

std::string ranked(const char* key, int64_t rank) { return key + std::to_string(rank); }

OpenedStore open_store(const WorldOptions& options, Clock::time_point deadline) {
  c10d::TCPStoreOptions store_options;
  store_options.port = options.master_port;
  store_options.waitWorkers = false;
  store_options.timeout = until(deadline);
  const bool hosts = options.rank == 0 && options.hosts_store;
  auto opened =
      run_within(until(deadline) + kAnswer, [hosts, options, store_options, deadline]() -> OpenedStore {
        if (hosts) return host_store(options, store_options);
        std::string local = wait_for_listener(options.master_addr, options.master_port, deadline);
        return {c10::make_intrusive<c10d::TCPStore>(options.master_addr, store_options), std::move(local)};
      });
  if (!opened) {
    throw environment_error(
        "what listens at the master's address " + place(options) +
        " does not answer as a store; check that rank 0 runs and that the port is its own");
  }
  opened->store = c10::make_intrusive<c10d::PrefixStore>(prefix(options), std::move(opened->store));
  return std::move(*opened);
}

std::vector<PeerProcess> meet(const c10::intrusive_ptr<c10d::Store>& store, const WorldOptions& options,
                              Clock::time_point deadline) {
  sign_in(*store, options);
  try {
    store->wait({keys::kComplete}, until(deadline));
  } catch (const c10::Error&) {
    // The wait counts whole milliseconds and may end just before the deadline does.
    constexpr std::chrono::milliseconds kRounding{10};
    if (Clock::now() + kRounding < deadline) throw;
    throw Error(ErrorKind::peer, "only " + std::to_string(store->add(keys::kCount, 0)) + " of " +
                                     std::to_string(options.size) + " ranks have come to " + place(options) +
                                     " within " + std::to_string(options.join_timeout.count() / 1000) +
                                     " s; missing: " + list_missing(*store, options.size) +
                                     "; look into the logs of these, or why they were not started");
  }
  const std::string outcome = store->get_to_str(keys::kComplete);
  if (outcome != kMet) {
    // The store ends with rank 0, and the others are to read the reason as well.
    if (options.rank == 0) std::this_thread::sleep_for(kAnswer);
    throw usage_error(outcome);
  }
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(options.size));
  for (int64_t rank = 0; rank < options.size; ++rank) names.push_back(ranked(keys::kPresent, rank));
  std::vector<PeerProcess> processes;
  processes.reserve(names.size());
  for (const auto& line : store->multiGet(names)) {
    processes.push_back(PeerProcess::from_line(std::string(line.begin(), line.end())));
  }
  return processes;
}

}  // namespace ampctl::dist
