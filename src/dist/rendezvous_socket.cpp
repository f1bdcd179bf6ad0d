#include "dist/rendezvous_socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/error.h"

namespace ampctl::dist {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kRetry{200};
constexpr milliseconds kLongestConnect{5000};  // a filtered port answers nothing

struct Endpoint {
  sockaddr_storage address{};
  socklen_t length = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&address); }
};

/// The addresses of a name; empty with `reason` filled when it has none.
std::vector<Endpoint> resolve(const char* name, uint16_t port, int flags, std::string& reason) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(name, std::to_string(port).c_str(), &hints, &found);
  if (code != 0) {
    reason = code == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(code);
    return {};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  std::vector<Endpoint> endpoints;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    Endpoint endpoint;
    endpoint.length = entry->ai_addrlen;
    std::memcpy(&endpoint.address, entry->ai_addr, entry->ai_addrlen);
    endpoints.push_back(endpoint);
  }
  return endpoints;
}

std::string digits(const Endpoint& endpoint) {
  std::array<char, NI_MAXHOST> host{};
  if (::getnameinfo(endpoint.get(), endpoint.length, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) !=
      0) {
    return "";
  }
  return host.data();
}

Endpoint own_address(int fd) {
  Endpoint endpoint;
  endpoint.length = sizeof(endpoint.address);
  if (::getsockname(fd, endpoint.get(), &endpoint.length) != 0) endpoint.length = 0;
  return endpoint;
}

uint16_t port_of(const Endpoint& endpoint) {
  if (endpoint.address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&endpoint.address)->sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in*>(&endpoint.address)->sin_port);
}

bool is_any_address(const Endpoint& endpoint) {
  if (endpoint.address.ss_family == AF_INET6) {
    const auto& address = reinterpret_cast<const sockaddr_in6*>(&endpoint.address)->sin6_addr;
    return std::memcmp(&address, &in6addr_any, sizeof(address)) == 0;
  }
  return reinterpret_cast<const sockaddr_in*>(&endpoint.address)->sin_addr.s_addr == htonl(INADDR_ANY);
}

FileDescriptor open_socket(const Endpoint& endpoint) {
  return FileDescriptor(::socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

/// 0 when it listens, else the system's reason.
int try_to_listen(const FileDescriptor& fd, const Endpoint& endpoint) {
  const int on = 1;
  const int off = 0;
  // A port whose last owner has just ended is free; one that somebody listens on stays refused.
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (endpoint.address.ss_family == AF_INET6) {
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  if (::bind(fd.get(), endpoint.get(), endpoint.length) != 0) return errno;
  return ::listen(fd.get(), SOMAXCONN) == 0 ? 0 : errno;
}

Listener describe_listener(FileDescriptor fd) {
  const Endpoint endpoint = own_address(fd.get());
  return {std::move(fd), port_of(endpoint), is_any_address(endpoint) ? "" : digits(endpoint)};
}

int listen_on_first(const std::vector<Endpoint>& endpoints, Listener& listener) {
  int last = EADDRNOTAVAIL;
  for (const auto& endpoint : endpoints) {
    FileDescriptor fd = open_socket(endpoint);
    last = fd.get() < 0 ? errno : try_to_listen(fd, endpoint);
    if (last == 0) {
      listener = describe_listener(std::move(fd));
      return 0;
    }
    if (last == EADDRINUSE) return last;
  }
  return last;
}

Error listen_error(const std::string& address, uint16_t port, int code) {
  const std::string place = address + ":" + std::to_string(port);
  if (code == EADDRINUSE) {
    return environment_error(
        "rank 0 cannot open its store at " + place + ": the port is used by another program" +
        "; give a free one (--master-port or --rdzv-endpoint, MASTER_PORT), or end that program" +
        " (`ss -ltnp 'sport = :" + std::to_string(port) + "'` shows it)");
  }
  return environment_error("rank 0 cannot open its store at " + place + ": " + std::strerror(code) +
                           "; give an address of the host that rank 0 runs on, and a port of 1024 or more");
}

/// "" when somebody answers, else why not; `local` is filled with this host's address of the connection.
std::string try_to_connect(const Endpoint& endpoint, milliseconds limit, std::string& local) {
  const FileDescriptor fd(
      ::socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) return std::strerror(errno);
  if (::connect(fd.get(), endpoint.get(), endpoint.length) != 0) {
    if (errno != EINPROGRESS) return std::strerror(errno);
    pollfd wait{fd.get(), POLLOUT, 0};
    if (::poll(&wait, 1, static_cast<int>(limit.count())) <= 0) return "no answer";
    int code = 0;
    socklen_t length = sizeof(code);
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &code, &length);
    if (code != 0) return std::strerror(code);
  }
  local = digits(own_address(fd.get()));
  return "";
}

}  // namespace

Listener listen_at(const std::string& address, uint16_t port, bool anywhere) {
  Listener listener;
  std::string reason;
  if (!anywhere) {
    const auto endpoints = resolve(address.c_str(), port, 0, reason);
    if (endpoints.empty()) {
      throw environment_error("rank 0 cannot open its store: the master's address '" + address +
                              "' is unknown: " + reason + "; give the name or address of rank 0's host " +
                              "(--master-addr or --rdzv-endpoint, MASTER_ADDR)");
    }
    const int code = listen_on_first(endpoints, listener);
    if (code == 0) return listener;
    if (code != EADDRNOTAVAIL) throw listen_error(address, port, code);
  }
  const int code = listen_on_first(resolve(nullptr, port, AI_PASSIVE, reason), listener);
  if (code != 0) throw listen_error("*", port, code);
  return listener;
}

Listener adopt_listener(int fd) {
  int listens = 0;
  socklen_t length = sizeof(listens);
  if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0) {
    throw environment_error(
        "the store's socket that the launcher handed over (descriptor " + std::to_string(fd) +
        ") does not listen; start the run with the launcher itself, not a copy of its environment");
  }
  return describe_listener(FileDescriptor(fd));
}

std::string wait_for_listener(const std::string& address, uint16_t port, Clock::time_point deadline) {
  std::string reason;
  const auto begin = Clock::now();
  do {
    for (const auto& endpoint : resolve(address.c_str(), port, 0, reason)) {
      const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
      std::string local;
      reason = try_to_connect(endpoint, std::clamp(left, milliseconds(1), kLongestConnect), local);
      if (reason.empty()) return local;
    }
    std::this_thread::sleep_for(std::min<Clock::duration>(kRetry, deadline - Clock::now()));
  } while (Clock::now() < deadline);
  const auto waited = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begin).count();
  throw environment_error(
      "nobody answers at the master's address " + address + ":" + std::to_string(port) + " (" + reason +
      ", tried for " + std::to_string(waited) +
      " s); check that rank 0 has started, that address and port (MASTER_ADDR, MASTER_PORT, " +
      "--rdzv-endpoint) are rank 0's on every node, and that no firewall is between");
}

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.rfind("127.", 0) == 0;
}

}  // namespace ampctl::dist
