#include "dist/beat.h"

#include <algorithm>
#include <sstream>

#include "dist/store.h"

namespace ampctl::dist {
namespace {

std::string text_of(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

std::optional<Beat> parse_beat(const std::string& text) {
  std::istringstream in(text);
  Beat beat;
  int64_t interval = 0;
  int32_t phase = 0;
  if (!(in >> beat.count >> interval >> phase >> beat.step)) return std::nullopt;
  beat.interval = std::chrono::milliseconds(interval);
  beat.phase = static_cast<Phase>(phase);
  return beat;
}

std::string on_one_line(std::string text) {
  for (char& letter : text) {
    if (letter == '\n' || letter == '\r') letter = ' ';
  }
  return text;
}

}  // namespace

const char* name(Phase phase) noexcept {
  switch (phase) {
    case Phase::start:
      return "starting";
    case Phase::data:
      return "waiting for data";
    case Phase::step:
      return "training";
    case Phase::evaluation:
      return "evaluating";
    case Phase::checkpoint:
      return "saving a checkpoint";
    case Phase::end:
      return "ending";
  }
  return "in an unknown phase";
}

std::chrono::milliseconds beat_interval(int64_t size) noexcept {
  constexpr int64_t kShortest = 1000;
  constexpr int64_t kLongest = 10000;
  constexpr int64_t kRanksASecond = 64;
  return std::chrono::milliseconds(std::clamp(size * kShortest / kRanksASecond, kShortest, kLongest));
}

std::string describe(const Beat& beat) {
  return "step " + std::to_string(beat.step) + ", " + name(beat.phase);
}

void write_beat(c10d::Store& store, int64_t rank, const Beat& beat) {
  std::ostringstream text;
  text << beat.count << ' ' << beat.interval.count() << ' ' << static_cast<int32_t>(beat.phase) << ' '
       << beat.step;
  store.set(ranked(keys::kBeat, rank), text.str());
}

std::vector<std::optional<Beat>> read_beats(c10d::Store& store, int64_t size) {
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(size));
  for (int64_t rank = 0; rank < size; ++rank) names.push_back(ranked(keys::kBeat, rank));
  std::vector<std::optional<Beat>> beats;
  beats.reserve(names.size());
  // A get of a missing key waits for it. Mostly none is missing, and then two questions are enough.
  if (store.check(names)) {
    for (const auto& bytes : store.multiGet(names)) beats.push_back(parse_beat(text_of(bytes)));
    return beats;
  }
  for (const auto& name : names) {
    beats.push_back(store.check({name}) ? parse_beat(text_of(store.get(name))) : std::nullopt);
  }
  return beats;
}

void add_note(c10d::Store& store, int64_t rank, const std::string& reason) {
  const std::string line = std::to_string(rank) + '\t' + on_one_line(reason) + '\n';
  store.append(keys::kNotes, std::vector<uint8_t>(line.begin(), line.end()));
}

std::vector<std::pair<int64_t, std::string>> read_notes(c10d::Store& store) {
  std::vector<std::pair<int64_t, std::string>> notes;
  if (!store.check({keys::kNotes})) return notes;
  std::istringstream lines(text_of(store.get(keys::kNotes)));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream in(line);
    int64_t rank = 0;
    if (!(in >> rank) || in.get() != '\t') continue;
    std::string reason;
    std::getline(in, reason);
    notes.emplace_back(rank, reason);
  }
  return notes;
}

}  // namespace ampctl::dist
