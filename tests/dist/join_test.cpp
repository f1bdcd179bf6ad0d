#include <chrono>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/error.h"
#include "dist/collectives.h"
#include "dist/rendezvous_socket.h"
#include "dist/world.h"
#include "rank_group.h"
#include "support/catch.h"
#include "support/free_port.h"
#include "support/matchers.h"

namespace {

using ampctl::kExitPeer;
using ampctl::dist::World;
using ampctl::dist::WorldOptions;
using ampctl::test::ContainsSubstring;
using ampctl::test::RankGroup;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kJoin{1500};
constexpr seconds kSoon{10};

WorldOptions options_of(int64_t rank, int64_t size, uint16_t port) {
  WorldOptions options;
  options.rank = rank;
  options.size = size;
  options.local_size = size;
  options.master_port = port;
  options.timeout = kSoon;
  options.join_timeout = kSoon;
  return options;
}

std::string join_and_gather(const WorldOptions& options) {
  World world = World::join(options);
  std::string all;
  for (const auto& text : ampctl::dist::gather_texts(world, std::to_string(options.rank))) all += text;
  world.leave();
  return all;
}

ampctl::ErrorKind kind_of_join_error(const WorldOptions& options, std::string& message) {
  try {
    World::join(options);
  } catch (const ampctl::Error& error) {
    message = error.what();
    return error.kind();
  }
  FAIL("the join was refused by nobody");
  return ampctl::ErrorKind::internal;
}

}  // namespace

TEST_CASE("a rank that never comes is named when the time to join is over") {
  RankGroup group({"group", 3, kJoin});
  group.start(0);
  group.start(2);
  for (const int64_t rank : {0, 2}) {
    group.require_exit(rank, kExitPeer, kSoon);
  }
  CHECK_THAT(group[0].output(),
             ContainsSubstring("only 2 of 3 ranks") && ContainsSubstring("missing: rank 1;"));
}

TEST_CASE("a used port is refused at once, naming it") {
  const auto used = ampctl::dist::listen_at("127.0.0.1", 0, false);
  std::string message;
  CHECK(kind_of_join_error(options_of(0, 2, used.port), message) == ampctl::ErrorKind::environment);
  CHECK_THAT(message,
             ContainsSubstring("127.0.0.1:" + std::to_string(used.port)) && ContainsSubstring("is used"));
}

TEST_CASE("an unreachable or unknown master is refused with its address and what to check") {
  auto options = options_of(1, 2, ampctl::test::free_port());
  options.join_timeout = milliseconds(500);
  std::string message;
  CHECK(kind_of_join_error(options, message) == ampctl::ErrorKind::environment);
  CHECK_THAT(message, ContainsSubstring("127.0.0.1:" + std::to_string(options.master_port)) &&
                          ContainsSubstring("Connection refused") && ContainsSubstring("MASTER_ADDR"));
  options.master_addr = "no-such-host.invalid";
  CHECK(kind_of_join_error(options, message) == ampctl::ErrorKind::environment);
  CHECK_THAT(message, ContainsSubstring("no-such-host.invalid"));
  options.rank = 0;
  CHECK(kind_of_join_error(options, message) == ampctl::ErrorKind::environment);
  CHECK_THAT(message, ContainsSubstring("no-such-host.invalid"));
}

TEST_CASE("ranks, sizes and engines that make no sense are refused") {
  std::string message;
  CHECK(kind_of_join_error(options_of(2, 2, 1), message) == ampctl::ErrorKind::usage);
  CHECK_THAT(message, ContainsSubstring("found rank 2 of 2"));
  auto options = options_of(0, 2, 1);
  options.backend = "nccl";
  CHECK(kind_of_join_error(options, message) == ampctl::ErrorKind::usage);
  CHECK_THAT(message, ContainsSubstring("nccl needs device: cuda"));
  options.backend = "mpi";
  CHECK(kind_of_join_error(options, message) == ampctl::ErrorKind::usage);
  CHECK_THAT(message, ContainsSubstring("'mpi'"));
}

TEST_CASE("rank 0's store takes over the launcher's listening socket") {
  auto listener = ampctl::dist::listen_at("127.0.0.1", 0, false);
  auto first = options_of(0, 2, listener.port);
  first.listen_fd = listener.fd.release();
  auto other = std::async(std::launch::async, join_and_gather, options_of(1, 2, listener.port));
  CHECK(join_and_gather(first) == "01");
  CHECK(other.get() == "01");
}

TEST_CASE("attempts that share a store, as under torchrun, do not see each other") {
  c10d::TCPStoreOptions server;
  server.port = 0;
  server.isServer = true;
  server.waitWorkers = false;
  const auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", server);
  for (const int64_t attempt : {0, 1}) {
    std::vector<WorldOptions> ranks{options_of(0, 2, store->getPort()), options_of(1, 2, store->getPort())};
    for (auto& options : ranks) {
      options.hosts_store = false;
      options.restart_count = attempt;
    }
    auto other = std::async(std::launch::async, join_and_gather, ranks[1]);
    CHECK(join_and_gather(ranks[0]) == "01");
    CHECK(other.get() == "01");
  }
}

TEST_CASE("ranks that were told different world sizes are refused on every one") {
  const uint16_t port = ampctl::test::free_port();
  auto options = options_of(0, 3, port);
  options.join_timeout = kJoin;
  auto first = std::async(std::launch::async, [&] {
    std::string message;
    return kind_of_join_error(options, message);
  });
  std::string message;
  CHECK(kind_of_join_error(options_of(1, 2, port), message) == ampctl::ErrorKind::usage);
  CHECK_THAT(message,
             ContainsSubstring("was started for a world of") && ContainsSubstring("another rank for one of"));
  CHECK(first.get() == ampctl::ErrorKind::usage);
}

TEST_CASE(
    "a rank that came but never connects is not waited for for ever; a second process of it is refused") {
  auto listener = ampctl::dist::listen_at("127.0.0.1", 0, false);
  auto options = options_of(0, 2, listener.port);
  options.listen_fd = listener.fd.release();
  options.timeout = kJoin;
  options.join_timeout = kJoin;
  options.run_id = "half";
  auto first = std::async(std::launch::async, [&] {
    std::string message;
    const auto kind = kind_of_join_error(options, message);
    return std::make_pair(kind, message);
  });
  c10d::TCPStoreOptions client;
  client.port = options.master_port;
  client.waitWorkers = false;
  c10d::PrefixStore prefixed("ampctl/half/0", c10::make_intrusive<c10d::TCPStore>("127.0.0.1", client));
  c10d::Store& store = prefixed;
  store.set("present/1", std::string("elsewhere\t1\tnone"));
  store.wait({"present/0"}, kSoon);
  auto second = options_of(1, 2, options.master_port);
  second.run_id = options.run_id;
  std::string refusal;
  CHECK(kind_of_join_error(second, refusal) == ampctl::ErrorKind::usage);
  CHECK_THAT(refusal,
             ContainsSubstring("two processes of rank 1") && ContainsSubstring("(elsewhere, process 1)"));
  if (store.add("present", 1) == 2) store.set("complete", std::string("1"));
  const auto [kind, message] = first.get();
  CHECK(kind == ampctl::ErrorKind::peer);
  CHECK_THAT(message, ContainsSubstring("joining the other ranks"));
}
