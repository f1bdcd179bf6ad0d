// What ranks tell each other through the store while they run: signs of life, and reasons of failures.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "dist/monitor.h"

namespace ampctl::dist {

struct Beat {
  int64_t count = 0;  ///< rises with every beat, so that no two hosts need to agree on the time
  std::chrono::milliseconds interval{};
  Phase phase = Phase::start;
  int64_t step = 0;
};

/// How often ranks beat: every second up to 64 ranks, so that the store answers 64 beats a second at most,
/// and every ten seconds at the longest.
[[nodiscard]] std::chrono::milliseconds beat_interval(int64_t size) noexcept;

/// "step 1200, evaluation".
[[nodiscard]] std::string describe(const Beat& beat);

void write_beat(c10d::Store& store, int64_t rank, const Beat& beat);

/// By rank; nothing for ranks that have not beaten yet.
[[nodiscard]] std::vector<std::optional<Beat>> read_beats(c10d::Store& store, int64_t size);

void add_note(c10d::Store& store, int64_t rank, const std::string& reason);

/// (rank, reason), the oldest first.
[[nodiscard]] std::vector<std::pair<int64_t, std::string>> read_notes(c10d::Store& store);

}  // namespace ampctl::dist
