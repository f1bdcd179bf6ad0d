#include "dist/peer_process.h"

#include <csignal>
#include <stdexcept>

#include <sys/wait.h>
#include <unistd.h>

#include "support/background_process.h"
#include "support/catch.h"
#include "support/process.h"

using ampctl::dist::PeerProcess;
using ampctl::dist::ProcessState;
using ampctl::dist::state_of;

TEST_CASE("a process keeps its identity through the store's text") {
  const PeerProcess self = PeerProcess::self();
  CHECK(self.pid == getpid());
  CHECK(PeerProcess::from_line(self.to_line()) == self);
  CHECK_THROWS_AS(PeerProcess::from_line("no tabs"), std::invalid_argument);
}

TEST_CASE("running, stopped, killed and unreaped processes of this host are told apart") {
  const ampctl::test::TempDir folder;
  ampctl::test::BackgroundProcess sleeper({"sleep", "60"}, folder.path() / "log");
  PeerProcess process = PeerProcess::self();
  CHECK(state_of(process) == ProcessState::running);
  process.pid = sleeper.pid();
  CHECK(state_of(process) == ProcessState::running);
  const auto becomes = [&](ProcessState state) {
    return ampctl::test::eventually([&] { return state_of(process) == state; }, std::chrono::seconds(10));
  };
  sleeper.signal(SIGSTOP);
  CHECK(becomes(ProcessState::stopped));
  sleeper.signal(SIGKILL);
  CHECK(becomes(ProcessState::gone));  // not waited for yet
  REQUIRE(sleeper.wait(std::chrono::seconds(10)).has_value());
  CHECK(state_of(process) == ProcessState::gone);
}

TEST_CASE("nothing is claimed about processes of other hosts and other namespaces") {
  PeerProcess process = PeerProcess::self();
  process.pid_namespace = "pid:[1]";
  CHECK(state_of(process) == ProcessState::unknown);
  process = PeerProcess::self();
  process.host += "-other";
  CHECK(state_of(process) == ProcessState::unknown);
}
