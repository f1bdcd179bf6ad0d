// A call that may block for ever, waited for only so long.
#pragma once

#include <chrono>
#include <future>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

namespace ampctl::dist {

/// Runs `body` on a thread of its own. Nothing when it has not returned after `limit`; it then goes on in the
/// background until the process ends, so it must own everything that it uses. What it throws is rethrown.
/// Needed for c10d's store: its client waits without a limit for the answer of a server that was stopped.
template <class Body>
std::optional<std::invoke_result_t<Body>> run_within(std::chrono::milliseconds limit, Body body) {
  using Result = std::invoke_result_t<Body>;
  static_assert(!std::is_void_v<Result>, "return something, so that done and not done can be told apart");
  std::packaged_task<Result()> task(std::move(body));
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  if (result.wait_for(limit) != std::future_status::ready) return std::nullopt;
  return result.get();
}

}  // namespace ampctl::dist
