// The time of day, for records.
#pragma once

#include <string>

namespace ampctl {

/// Now, in UTC, to the second: "2026-01-31T23:59:59Z" (ISO 8601).
[[nodiscard]] std::string utc_now();

}  // namespace ampctl
