// The listening socket of the job's store, opened before any worker starts: a port in use is found at once,
// and one that the system chose cannot be taken by another in between.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/file.h"

namespace ampctl::launch {

struct StoreSocket {
  FileDescriptor fd;
  uint16_t port = 0;
};

/// Listens on `host` (name or address of this machine) alone; no port: the system's choice. Throws an
/// environment error: the port is in use, the host is unknown or is not this machine.
[[nodiscard]] StoreSocket open_store_socket(const std::string& host, const std::optional<uint16_t>& port);

}  // namespace ampctl::launch
