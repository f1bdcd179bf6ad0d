// From a StepEnd to the parts of the step line, smoothed and in people's units.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "events/events.h"

namespace ampctl::events {

/// Seconds on a clock that never steps back.
using MonotonicClock = std::function<double()>;
[[nodiscard]] double monotonic_seconds();

/// The step line's parts. Empty: nothing to say (memory on the CPU, corrupt samples when there are none).
struct StepFields {
  std::string epoch;    ///< "epoch 1/10", counted from 1
  std::string steps;    ///< "step 45/450"
  std::string percent;  ///< "10.0%"
  double share = 0.0;   ///< of the run that is done, 0 to 1
  std::string loss;     ///< "loss 0.4120", smoothed
  std::string speed;    ///< "1.2k samples/s"
  std::string data_wait;
  std::string lr;
  std::string scale;
  std::string skipped;
  std::string memory;
  std::string corrupt;
  std::string eta;
};

class StepTracker {
 public:
  explicit StepTracker(MonotonicClock clock = monotonic_seconds);
  void start(const RunStarted& run);
  [[nodiscard]] StepFields track(const StepEnd& step);
  [[nodiscard]] int64_t total_steps() const { return total_steps_; }
  /// "epoch 1/10" for an epoch counted from 0.
  [[nodiscard]] std::string epoch_text(int64_t epoch) const;

 private:
  double smoothed_loss(const StepEnd& step);
  std::string eta(const StepEnd& step);

  MonotonicClock clock_;
  int64_t total_steps_ = 0;
  int64_t steps_per_epoch_ = 0;
  int64_t last_step_ = 0;
  double loss_sum_ = 0.0;  // exponentially weighted, with the sum of its weights beside it
  double loss_weight_ = 0.0;
  std::optional<double> first_time_;
  int64_t first_step_ = 0;
};

}  // namespace ampctl::events
