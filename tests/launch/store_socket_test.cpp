#include "launch/store_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "support/catch.h"
#include "support/matchers.h"

using ampctl::Error;
using ampctl::ErrorKind;
using ampctl::FileDescriptor;
using ampctl::launch::open_store_socket;
using ampctl::test::ContainsSubstring;

namespace {

bool connects(uint32_t address, uint16_t port) {
  const FileDescriptor client(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(port);
  place.sin_addr.s_addr = htonl(address);
  return connect(client.get(), reinterpret_cast<sockaddr*>(&place), sizeof(place)) == 0;
}

std::string refusal(const std::string& host, uint16_t port) {
  try {
    static_cast<void>(open_store_socket(host, port));
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::environment);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("The store's socket listens on the address given and no other") {
  const auto store = open_store_socket("127.0.0.1", {});
  REQUIRE(store.port != 0);
  CHECK(connects(INADDR_LOOPBACK, store.port));
  CHECK_FALSE(connects(INADDR_LOOPBACK + 1, store.port));
  CHECK(open_store_socket("127.0.0.1", {}).port != store.port);
}

TEST_CASE("A port is free again as soon as its socket is closed, also after connections") {
  uint16_t port = 0;
  {
    const auto store = open_store_socket("localhost", {});
    port = store.port;
    CHECK(connects(INADDR_LOOPBACK, port));
  }
  CHECK(open_store_socket("localhost", port).port == port);
}

TEST_CASE("A port in use, a stranger's address and an unknown host are refused with the way out") {
  const auto store = open_store_socket("127.0.0.1", {});
  CHECK_THAT(refusal("127.0.0.1", store.port),
             ContainsSubstring("port " + std::to_string(store.port) + " on 127.0.0.1 is in use") &&
                 ContainsSubstring("--master-port"));
  // Documentation addresses (RFC 5737) belong to nobody.
  CHECK_THAT(refusal("192.0.2.7", 4000),
             ContainsSubstring("not an address of this machine") && ContainsSubstring("--node-rank 0"));
  CHECK_THAT(refusal("no-such-host.invalid", 4000),
             ContainsSubstring("cannot resolve 'no-such-host.invalid'"));
}
