// Exact numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace ampctl {

/// "512 B", "1.5 KiB", "139.8 GiB": binary units.
[[nodiscard]] std::string format_bytes(uint64_t bytes);

/// "1,281,167"
[[nodiscard]] std::string group_digits(int64_t number);

}  // namespace ampctl
