// Who is behind a failure: what ranks have left in the store, and what this host knows of its processes.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "base/error.h"
#include "dist/world.h"

namespace ampctl::dist {

/// The ranks that are gone, stopped, silent, or have left a note about their own failure, one a line with
/// host and process; "" when none can be named. Bounded: a few seconds, also when the store does not answer.
[[nodiscard]] std::string find_suspects(const World& world);

/// True for what Gloo, NCCL and the store throw when a peer or the network fails, also out of a backward.
[[nodiscard]] bool is_group_failure(const std::exception& error) noexcept;

/// The Error (kind peer) for a failed operation ("the all-reduce of 4 float32 values"), with the suspects.
[[nodiscard]] Error peer_error(const World& world, const std::string& operation, const std::exception& error);

/// What the transport said, without the places in its source that Gloo and c10 add.
[[nodiscard]] std::string transport_message(const std::exception& error);

/// Runs `body`; what the group throws inside comes out as peer_error, everything else unchanged. For
/// code that runs collectives without calling this folder, such as a backward with a Reducer behind it.
template <class Body>
decltype(auto) with_peer_errors(const World& world, const std::string& operation, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (!is_group_failure(error)) throw;
    throw peer_error(world, operation, error);
  }
}

}  // namespace ampctl::dist
