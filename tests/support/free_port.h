// A TCP port for a test's processes.
#pragma once

#include <cstdint>

namespace ampctl::test {

/// One of the loopback interface that nobody uses at the moment. Throws where there is none.
[[nodiscard]] uint16_t free_port();

}  // namespace ampctl::test
