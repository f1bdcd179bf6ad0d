// The last thing a run says: how it went, where its results are, what to do next.
#pragma once

#include <string>

#include "events/events.h"

namespace ampctl::events {

/// `checkpoint_exists`: this run saved one, or continued from one.
[[nodiscard]] std::string closing_block(const RunStarted& run, const RunEnded& ended, bool checkpoint_exists);

}  // namespace ampctl::events
