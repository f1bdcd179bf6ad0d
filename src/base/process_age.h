// How long this process has lived.
#pragma once

#include <optional>

namespace ampctl {

/// Seconds since the process was started, as the kernel counts (ticks of 10 ms); becoming another program by
/// exec does not begin anew. Nothing where /proc does not tell.
[[nodiscard]] std::optional<double> process_age();

}  // namespace ampctl
