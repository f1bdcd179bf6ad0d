// Sees ranks that hang or are gone, from a thread of its own, while the main thread waits for the device.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "dist/world.h"

namespace ampctl::dist {

/// What a rank is doing, for messages about those that hang.
enum class Phase : int32_t { start, data, step, evaluation, checkpoint, end };

[[nodiscard]] const char* name(Phase phase) noexcept;

struct MonitorOptions {
  /// Without a call of `at` for this long, the rank counts as hanging.
  std::chrono::milliseconds timeout{std::chrono::minutes(10)};
  /// How long a rank whose peer is gone may go on before `on_failure`: its main thread mostly notices
  /// by itself, with a better message.
  std::chrono::milliseconds grace{std::chrono::seconds(5)};
  /// Called once at most, on the monitor's thread, with a report for people: why, and for each rank that is
  /// behind, silent, stopped or gone its phase, step, host and age. The main thread may be stuck for ever, so
  /// this is the place to write the error file and to end the process (exit code 5).
  std::function<void(const std::string& report)> on_failure;
};

/// Puts beats (host, process, phase, step, a counter) into the store, every second in worlds up to 64 ranks
/// and less often in larger ones, through a store connection of its own. Also reads the notes that failing
/// ranks leave. In a world of one it still watches this rank's own progress.
class Monitor {
 public:
  /// Not collective. The world must outlive it: destroy it before World::leave.
  Monitor(const World& world, MonitorOptions options);
  /// Waits a second at most, also when the store does not answer.
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  /// Progress: a step began, a batch was evaluated. Any call counts, also with unchanged arguments. A few
  /// atomic stores.
  void at(Phase phase, int64_t step) noexcept;

  /// Leaves the reason of this rank's failure for the others, who name it instead of its consequences.
  /// Returns within a second. Call it before World::abort.
  void note_failure(const std::string& reason) noexcept;

  /// Ranks that are gone, stopped, silent or have left a note, one a line, as peers.h finds them; "" when
  /// none can be named. Takes up to about three beats.
  [[nodiscard]] std::string suspects() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ampctl::dist
