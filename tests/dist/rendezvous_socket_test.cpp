#include "dist/rendezvous_socket.h"

#include <chrono>
#include <string>

#include <sys/socket.h>

#include "base/error.h"
#include "support/catch.h"
#include "support/matchers.h"

namespace dist = ampctl::dist;
using ampctl::test::ContainsSubstring;

namespace {

std::string reached_from(const std::string& address, uint16_t port) {
  return dist::wait_for_listener(address, port, std::chrono::steady_clock::now() + std::chrono::seconds(5));
}

}  // namespace

TEST_CASE("the store listens at the address given, and tells by which address of this host it is reached") {
  const auto listener = dist::listen_at("127.0.0.1", 0, false);
  CHECK(listener.address == "127.0.0.1");
  CHECK(listener.port != 0);
  CHECK(reached_from("127.0.0.1", listener.port) == "127.0.0.1");
}

TEST_CASE("the store listens at all addresses when told to, and where the name is none of this host's") {
  CHECK(dist::listen_at("localhost", 0, true).address.empty());
  // RFC 5737 keeps this network for documentation.
  const auto listener = dist::listen_at("192.0.2.1", 0, false);
  CHECK(listener.address.empty());
  CHECK(reached_from("127.0.0.1", listener.port) == "127.0.0.1");
}

TEST_CASE("a port may be taken again as soon as its owner has ended") {
  auto listener = dist::listen_at("127.0.0.1", 0, false);
  const uint16_t port = listener.port;
  CHECK_THROWS_WITH(dist::listen_at("127.0.0.1", port, false), ContainsSubstring("is used"));
  listener.fd = ampctl::FileDescriptor();
  CHECK(dist::listen_at("127.0.0.1", port, false).port == port);
}

TEST_CASE("a socket handed over must listen") {
  auto listener = dist::listen_at("127.0.0.1", 0, false);
  const uint16_t port = listener.port;
  CHECK(dist::adopt_listener(listener.fd.release()).port == port);
  const ampctl::FileDescriptor idle(::socket(AF_INET, SOCK_STREAM, 0));
  CHECK_THROWS_WITH(dist::adopt_listener(idle.get()), ContainsSubstring("does not listen"));
}

TEST_CASE("addresses that never leave the host are known") {
  CHECK(dist::is_loopback("localhost"));
  CHECK(dist::is_loopback("127.0.1.1"));
  CHECK(dist::is_loopback("::1"));
  CHECK_FALSE(dist::is_loopback("node1"));
  CHECK_FALSE(dist::is_loopback("10.127.0.1"));
}
