// The processes that train together, as seen by one of them: its rank, its device and the process groups.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include "dist/peer_process.h"

namespace c10d {
class ProcessGroup;
class Store;
}  // namespace c10d

namespace ampctl::dist {

struct WorldOptions {
  int64_t rank = 0;
  int64_t size = 1;
  int64_t local_rank = 0;
  int64_t local_size = 1;  ///< ranks on this host; fewer than `size`: the world spans several hosts
  c10::Device device{c10::kCPU};
  std::string backend = "gloo";  ///< for tensors on `device`: nccl (CUDA only) or gloo
  std::string master_addr = "127.0.0.1";
  uint16_t master_port = 0;
  bool hosts_store = true;  ///< rank 0 opens the store; false: somebody else has (torchrun's agent)
  std::optional<int>
      listen_fd;       ///< a listening socket at master_port for rank 0's store, which takes it over
  std::string run_id;  ///< with restart_count: attempts and runs that share a store never mix
  int64_t restart_count = 0;
  std::chrono::milliseconds timeout{std::chrono::minutes(10)};       ///< of one collective operation
  std::chrono::milliseconds join_timeout{std::chrono::minutes(10)};  ///< until all ranks have come
};

/// Owns the store connection and the process groups. A world of one has none, and every function of this
/// folder leaves its arguments as they are there.
///
/// Ending: `leave` in an orderly end, on every rank; `abort` after a failure, after which the process should
/// end without running static destructors (std::_Exit), since operations that wait for a dead peer cannot be
/// called back under Gloo. The destructor of a world that was not left aborts. None of the three waits for
/// a peer longer than kLeaveTimeout. CUDA graphs that captured collectives must be destroyed before `leave`.
class World {
 public:
  /// The longest that `leave` waits, for other ranks and for its own groups.
  static constexpr std::chrono::seconds kLeaveTimeout{10};

  /// A world of one.
  static World alone(c10::Device device);

  /// Meets the other ranks; returns when all have come. Size 1 gives a world of one. Throws
  ///   usage        ranks, size or backend that make no sense (rank ≥ size, nccl with a CPU device)
  ///   environment  rank 0's port is used, the master's name is unknown or nobody answers there, NCCL is not
  ///                part of this build or does not start; each with what to check
  ///   peer         ranks that never came, by number
  ///
  /// Rank 0's store binds to master_addr, so that nobody outside that network can reach it. Where this is no
  /// address of the host (a service name of a cluster), or a loopback address though the world spans several
  /// hosts (PyTorchJob's master), it binds to all addresses.
  /// Gloo uses the interface that reaches the master, or the one that GLOO_SOCKET_IFNAME names.
  static World join(const WorldOptions& options);

  World(World&&) noexcept;
  World& operator=(World&&) noexcept;
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World();

  [[nodiscard]] int64_t rank() const;
  [[nodiscard]] int64_t size() const;
  [[nodiscard]] bool is_main() const { return rank() == 0; }
  [[nodiscard]] c10::Device device() const;
  [[nodiscard]] std::chrono::milliseconds timeout() const;

  /// For tensors on `device()`, and the host's under Gloo; null in a world of one, and after leave or abort.
  [[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> group() const;
  /// Gloo, for small tensors on the host; null as above. One thread at a time.
  [[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> control() const;
  /// This attempt's part of the store; null as above. One thread at a time: others clone it.
  [[nodiscard]] c10::intrusive_ptr<c10d::Store> store() const;

  /// False in a world of one, and where the launcher holds it (torchrun's agent).
  [[nodiscard]] bool rank_0_holds_store() const;
  /// Every rank's process, by rank; empty in a world of one.
  [[nodiscard]] const std::vector<PeerProcess>& processes() const;

  /// A CUDA graph that holds collectives was launched on the current stream.
  void launched_graph() const;
  /// Before collectives outside of a graph: the host waits until the graph launched last has ended on the
  /// device, since NCCL must not be given both at once (NCCL_GRAPH_MIXING_SUPPORT=0). This folder's
  /// collectives do it by themselves. Nothing is waited for where no graph was launched since the last call.
  void settle() const;

  /// The orderly end: no barrier; rank 0, when it holds the store, waits for the others' goodbye.
  void leave();

  /// After a failure: ends NCCL's operations, so that waits for the device return, and gives up the rest. The
  /// rank that holds the store stays 3 s, where there are ranks on other hosts, so that these can look up in
  /// it who is at fault.
  void abort() noexcept;

 private:
  struct State;
  explicit World(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace ampctl::dist
