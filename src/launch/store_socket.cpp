#include "launch/store_socket.h"

#include <cerrno>
#include <cstring>
#include <memory>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/error.h"

namespace ampctl::launch {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int failure = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failure != 0) {
    throw environment_error("cannot resolve '" + host + "', where rank 0's store should listen: " +
                            gai_strerror(failure) + "; give --rdzv-endpoint an address of this machine");
  }
  return {found, freeaddrinfo};
}

Error failure_to_listen(const std::string& host, uint16_t port, int reason) {
  const std::string place = host + ":" + std::to_string(port);
  switch (reason) {
    case EADDRINUSE:
      return environment_error("port " + std::to_string(port) + " on " + host +
                               " is in use by another process, perhaps another run: give another port with "
                               "--master-port or --rdzv-endpoint (on one node leave it out for a free one); "
                               "'ss -ltnp sport = :" +
                               std::to_string(port) + "' shows who holds it");
    case EADDRNOTAVAIL:
      return environment_error(place +
                               " is not an address of this machine, but --node-rank 0 holds the store "
                               "there: start --node-rank 0 on that host, or give its address");
    case EACCES:
      return environment_error("may not listen on " + place +
                               ": ports below 1024 are the system's; give "
                               "another with --master-port or --rdzv-endpoint");
    default:
      return environment_error("cannot listen on " + place + ": " + std::strerror(reason));
  }
}

uint16_t port_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

}  // namespace

StoreSocket open_store_socket(const std::string& host, const std::optional<uint16_t>& port) {
  const Addresses addresses = resolve(host, port.value_or(0));
  int reason = EADDRNOTAVAIL;
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    StoreSocket listening{FileDescriptor(socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0)), 0};
    const int fd = listening.fd.get();
    // Connections of an attempt that just ended do not hold the port.
    const int reuse = 1;
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse)) == 0 &&
        bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0) {
      listening.port = port_of(fd);
      return listening;
    }
    reason = errno;
    if (reason == EADDRINUSE) break;
  }
  throw failure_to_listen(host, port.value_or(0), reason);
}

}  // namespace ampctl::launch
