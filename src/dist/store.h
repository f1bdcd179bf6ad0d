// c10d's TCPStore, as one attempt of one run sees it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "dist/peer_process.h"
#include "dist/world.h"

namespace ampctl::dist {

/// Keys that this folder uses, all inside the attempt's own prefix. Those with a rank end in it.
namespace keys {
inline constexpr const char* kPresent = "present/";   ///< the rank's process
inline constexpr const char* kCount = "present";      ///< how many have come
inline constexpr const char* kComplete = "complete";  ///< "1": all have come; else why they cannot meet
inline constexpr const char* kSize = "size";
inline constexpr const char* kBeat = "beat/";
inline constexpr const char* kNotes = "notes";
inline constexpr const char* kLeaving = "leaving/";  ///< the rank ends in order
inline constexpr const char* kLeft = "left";         ///< how many have closed their connections
}  // namespace keys

[[nodiscard]] std::string ranked(const char* key, int64_t rank);

struct OpenedStore {
  c10::intrusive_ptr<c10d::Store> store;
  std::string local_address;  ///< this host's, on the network of the store; "" unknown
};

/// Opens or reaches the store. Errors as World::join's.
[[nodiscard]] OpenedStore open_store(const WorldOptions& options,
                                     std::chrono::steady_clock::time_point deadline);

/// Signs in and waits until all ranks have; returns their processes by rank. Errors as World::join's.
[[nodiscard]] std::vector<PeerProcess> meet(const c10::intrusive_ptr<c10d::Store>& store,
                                            const WorldOptions& options,
                                            std::chrono::steady_clock::time_point deadline);

}  // namespace ampctl::dist
