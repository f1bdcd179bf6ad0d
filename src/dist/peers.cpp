#include "dist/peers.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "dist/beat.h"
#include "dist/bounded.h"
#include "dist/store.h"

namespace ampctl::dist {
namespace {

using std::chrono::milliseconds;

constexpr size_t kNamedRanks = 16;
/// A killed process closes its connections a little before it counts as ended.
constexpr milliseconds kEnding{300};
constexpr milliseconds kLook{20};
constexpr milliseconds kStoreAnswer{3000};  // besides the wait for beats
constexpr double kBeatsToWait = 2.5;
constexpr milliseconds kLongestBeatWait{25000};

/// The other ranks, as a thread of its own can hold them.
struct Others {
  int64_t self = 0;
  std::vector<PeerProcess> processes;

  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(processes.size()); }
  [[nodiscard]] std::string named(int64_t rank) const {
    return describe(rank, processes[static_cast<size_t>(rank)]);
  }
};

using Lines = std::map<int64_t, std::string>;

/// What this host's kernel says about the ranks that run here.
Lines ended_or_stopped(const Others& others) {
  Lines lines;
  for (int64_t rank = 0; rank < others.size(); ++rank) {
    if (rank == others.self) continue;
    const ProcessState state = state_of(others.processes[static_cast<size_t>(rank)]);
    if (state == ProcessState::gone) lines[rank] = others.named(rank) + " has ended";
    if (state == ProcessState::stopped)
      lines[rank] = others.named(rank) + " is stopped (by a signal or a debugger)";
  }
  return lines;
}

Lines soon_ended_or_stopped(const Others& others) {
  const auto deadline = std::chrono::steady_clock::now() + kEnding;
  Lines lines = ended_or_stopped(others);
  while (lines.empty() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kLook);
    lines = ended_or_stopped(others);
  }
  return lines;
}

/// The first note of each rank: later ones are consequences.
Lines noted(const Others& others, c10d::Store& store) {
  Lines lines;
  for (const auto& [rank, reason] : read_notes(store)) {
    if (rank == others.self || rank < 0 || rank >= others.size()) continue;
    lines.emplace(rank, others.named(rank) + " reported: " + reason);
  }
  return lines;
}

/// Ranks whose beats have ceased; none where nobody beats. Waits for two beats and a half.
Lines silent(const Others& others, c10d::Store& store) {
  const auto before = read_beats(store, others.size());
  milliseconds interval{0};
  for (const auto& beat : before) {
    if (beat) interval = std::max(interval, beat->interval);
  }
  std::this_thread::sleep_for(
      std::min(std::chrono::duration_cast<milliseconds>(interval * kBeatsToWait), kLongestBeatWait));
  const auto after = read_beats(store, others.size());
  Lines lines;
  for (int64_t rank = 0; rank < others.size(); ++rank) {
    const auto& first = before[static_cast<size_t>(rank)];
    const auto& second = after[static_cast<size_t>(rank)];
    if (rank == others.self || !first || !second || second->count != first->count) continue;
    lines[rank] = others.named(rank) + " is silent; it was at " + describe(*second);
  }
  return lines;
}

milliseconds longest_silence_wait(int64_t size) {
  return std::min(std::chrono::duration_cast<milliseconds>(beat_interval(size) * kBeatsToWait),
                  kLongestBeatWait);
}

std::string joined(const Lines& lines) {
  std::string text;
  size_t count = 0;
  for (const auto& [rank, line] : lines) {
    if (++count <= kNamedRanks) text += (text.empty() ? "" : "\n") + line;
  }
  if (count > kNamedRanks) text += "\nand " + std::to_string(count - kNamedRanks) + " more";
  return text;
}

/// Gloo's messages begin with a place in its source: "[…/pair.cc:534] Connection closed by peer".
std::string without_place(const std::string& text) {
  const size_t end = text.find("] ");
  const bool placed = text.rfind('[', 0) == 0 && end != std::string::npos && text.find("gloo") < end;
  return placed ? text.substr(end + 2) : text;
}

std::string no_answer(const World& world, const Others& others) {
  return (world.rank_0_holds_store() ? others.named(0) + " holds the store, which"
                                     : std::string("the launcher's store")) +
         " does not answer: it has ended, is stopped or cannot be reached";
}

}  // namespace

std::string find_suspects(const World& world) {
  const auto store = world.store();
  if (!store.defined()) return "";
  const Others others{world.rank(), world.processes()};
  Lines lines = soon_ended_or_stopped(others);
  if (world.rank_0_holds_store() && lines.count(0) > 0) return joined(lines);  // the store went with it
  const bool need_beats = lines.empty();
  const auto limit = kStoreAnswer + (need_beats ? longest_silence_wait(world.size()) : milliseconds(0));
  std::optional<Lines> from_store;
  try {
    from_store = run_within(limit, [store, others, need_beats] {
      Lines found = noted(others, *store);
      if (!found.empty() || !need_beats) return found;
      found = silent(others, *store);
      found.merge(noted(others, *store));
      return found;
    });
  } catch (const std::exception&) {
    // Said below.
  }
  if (!from_store) {
    lines.emplace(0, no_answer(world, others));
    return joined(lines);
  }
  // A reason that a rank gave itself is worth more than what became of it.
  for (auto& [rank, line] : *from_store) lines[rank] = line;
  return joined(lines);
}

bool is_group_failure(const std::exception& error) noexcept {
  if (dynamic_cast<const c10::DistError*>(&error) != nullptr) return true;
  const std::string_view text = error.what();
  return text.find("gloo/") != std::string_view::npos || text.find("NCCL") != std::string_view::npos;
}

std::string transport_message(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return without_place(torch_error != nullptr ? torch_error->what_without_backtrace() : error.what());
}

Error peer_error(const World& world, const std::string& operation, const std::exception& error) {
  const std::string suspects = find_suspects(world);
  const std::string who = suspects.empty()
                              ? "which rank is at fault cannot be told from here: see the logs of the others"
                              : suspects;
  return {ErrorKind::peer, operation + " failed on rank " + std::to_string(world.rank()) + ": " +
                               transport_message(error) + "\n" + who};
}

}  // namespace ampctl::dist
