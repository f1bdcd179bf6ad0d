// Events as lines of text: what the console shows and what train.log keeps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "events/events.h"
#include "events/step_tracker.h"

namespace ampctl::events {

struct Line {
  enum class Kind { step, event, warning, error, closing } kind = Kind::event;
  std::string text;  ///< printable, without the last newline; the plan and the closing block have several
};

/// Keeps what a line needs to know of earlier events. Lines, for example:
///   epoch 1/10  step 45/450 (10.0%)  loss 0.4120  1.2k samples/s  data wait 0.3%  lr 0.1  scale 65536  …
///   step 12 skipped: gradients not finite in conv1.weight and 61 more; scale 65536 -> 32768
///   12 steps skipped since step 300; scale 65536 -> 16 (first not finite: conv1.weight)
///   eval  epoch 1/10  step 45  loss 0.3120  top1 91.23%  top5 99.10%  450 samples in 0.8s  best so far
/// The first few skipped steps of a run get a line each, later ones one line an interval, before its StepEnd.
class EventLines {
 public:
  explicit EventLines(Message::Level level, MonotonicClock clock = monotonic_seconds);
  std::vector<Line> lines(const Event& event);

  /// The parts of the last step line, for the progress bar; empty before the first.
  [[nodiscard]] const std::optional<StepFields>& last_step() const { return last_step_; }
  /// "epoch 3/10"; empty when nothing is being trained.
  [[nodiscard]] const std::string& epoch() const { return epoch_; }

 private:
  std::vector<Line> on(const RunStarted& run);
  std::vector<Line> on(const StepEnd& step);
  std::vector<Line> on(const Overflow& overflow);
  std::vector<Line> on(const Evaluated& evaluated);
  std::vector<Line> on(const Progress& progress);
  std::vector<Line> on(const CheckpointSaved& saved);
  std::vector<Line> on(const Message& message);
  std::vector<Line> on(const RunEnded& ended);
  /// The line of the skipped steps that got none of their own, if any.
  std::vector<Line> counted_overflows();

  struct OverflowCount {
    int64_t steps = 0;
    Overflow first;
    double scale_after = 1.0;
  };
  Message::Level level_;
  StepTracker tracker_;
  std::optional<StepFields> last_step_;
  std::string epoch_;
  RunStarted run_;
  bool checkpoint_exists_ = false;
  int64_t last_told_step_ = 0;  // of the last step line or skipped step with a line of its own
  int64_t overflow_lines_ = 0;
  OverflowCount counted_;
};

}  // namespace ampctl::events
