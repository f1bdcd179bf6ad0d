// Writing to a terminal or pipe that may be gone, or that nobody reads: the launcher must never wait for it.
#pragma once

#include <cstddef>
#include <string_view>

namespace ampctl::launch {

/// Writes as much as is taken at once, and returns how much that was. What can never be written (no reader,
/// no terminal) counts as written.
[[nodiscard]] std::size_t write_now(int fd, std::string_view text);

}  // namespace ampctl::launch
