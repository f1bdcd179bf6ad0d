// Sockets of the rendezvous: where rank 0's store listens, and whether it does yet.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/file.h"

namespace ampctl::dist {

/// A listening socket and where it listens.
struct Listener {
  FileDescriptor fd;
  uint16_t port = 0;
  std::string address;  ///< digits; "" when it takes connections on every address of the host
};

/// Listens at `address`:`port` (0: any free one), or on all addresses when `anywhere` or when `address` is
/// none of this host's. Throws environment errors: the port is used, may not be used, the name is unknown.
[[nodiscard]] Listener listen_at(const std::string& address, uint16_t port, bool anywhere);

/// Takes over a socket that listens already. Throws environment when it is none.
[[nodiscard]] Listener adopt_listener(int fd);

/// Tries to connect until somebody listens there. Returns the address of this host that reached it, as
/// digits. Throws environment, naming the address, the last reason and what to check, when `deadline` passes.
[[nodiscard]] std::string wait_for_listener(const std::string& address, uint16_t port,
                                            std::chrono::steady_clock::time_point deadline);

/// True for the names and addresses that never leave the host.
[[nodiscard]] bool is_loopback(const std::string& address);

}  // namespace ampctl::dist
