// The line that is redrawn in place on a terminal, made to fit its width.
#pragma once

#include <string>

#include "events/events.h"
#include "events/step_tracker.h"

namespace ampctl::events {

/// At most `width` columns: the bar shrinks first, then the less important parts go (memory, learning rate,
/// data wait, scale, …), and what is left is cut.
[[nodiscard]] std::string bar_line(const StepFields& fields, int width);

/// The same for an activity inside the run: "epoch 1/10  evaluating  [====>    ]  12/40"; `epoch` may be
/// empty.
[[nodiscard]] std::string activity_line(const std::string& epoch, const Progress& progress, int width);

}  // namespace ampctl::events
