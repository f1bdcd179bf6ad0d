#include <chrono>
#include <csignal>
#include <string>

#include "base/error.h"
#include "rank_group.h"
#include "support/catch.h"
#include "support/matchers.h"
#include "support/skip.h"

namespace {

using ampctl::kExitDone;
using ampctl::kExitEnvironment;
using ampctl::kExitPeer;
using ampctl::test::ContainsSubstring;
using ampctl::test::RankGroup;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kCollective{3000};
constexpr seconds kSoon{10};  // the timeout, and what looking for the suspects may take

/// Ranks of `role` under way, then `signal` to one of them; the others must end with 5, naming it with
/// `state`.
void check_signal(const std::string& role, int64_t victim, int signal, const std::string& state,
                  bool own_host_names = false) {
  constexpr int64_t kRanks = 3;
  RankGroup group({role, kRanks, kCollective, "cpu", own_host_names});
  group.start_all();
  for (int64_t rank = 0; rank < kRanks; ++rank) group.require_said(rank, "under way");
  group[victim].signal(signal);
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    if (rank == victim) continue;
    group.require_exit(rank, kExitPeer, kSoon);
    INFO("rank " << rank);
    CHECK_THAT(group[rank].output(), ContainsSubstring("rank " + std::to_string(victim) + " ("));
    CHECK_THAT(group[rank].output(), ContainsSubstring(state));
  }
}

}  // namespace

TEST_CASE("a killed rank is named by the others, which end at once") {
  check_signal("steps", 1, SIGKILL, "has ended");
}

TEST_CASE("a killed rank 0, which holds the store, is named by the others") {
  check_signal("steps", 0, SIGKILL, "has ended");
}

TEST_CASE("a stopped rank is named by the others within the timeout") {
  check_signal("steps", 1, SIGSTOP, "is stopped");
}

TEST_CASE("a stopped rank 0, which holds the store, is named by the others within the timeout") {
  check_signal("steps", 0, SIGSTOP, "is stopped");
}

TEST_CASE("a killed rank is named also when main threads wait for the device") {
  check_signal("stuck_in_the_device", 1, SIGKILL, "has ended");
}

TEST_CASE("a killed rank 0 is named also when main threads wait for the device") {
  check_signal("stuck_in_the_device", 0, SIGKILL, "has ended");
}

TEST_CASE("a silent rank of another host is named by its last step, when its processes cannot be looked at") {
  if (!ampctl::test::can_name_hosts())
    return ampctl::test::skip("unshare --uts needs more rights than these");
  check_signal("steps", 1, SIGSTOP, "is silent; it was at step", true);
}

TEST_CASE("rank 0 of another host is named when its store does not answer") {
  if (!ampctl::test::can_name_hosts())
    return ampctl::test::skip("unshare --uts needs more rights than these");
  check_signal("stuck_in_the_device", 0, SIGKILL, "holds the store, which does not answer", true);
}

TEST_CASE("a rank that makes no progress is named with its step and phase within the monitor's timeout") {
  RankGroup group({"hangs", 2});
  group.start_all();
  group.require_exit(0, kExitPeer, kSoon);
  group.require_exit(1, kExitPeer, kSoon);
  CHECK_THAT(group[0].output(), ContainsSubstring("no progress for 2 s"));
  CHECK_THAT(group[0].output(), ContainsSubstring("is behind, at step 3, waiting for data"));
}

TEST_CASE("the reason that a failing rank leaves is what the others report") {
  RankGroup group({"fails_with_a_note", 3});
  group.start_all();
  group.require_exit(1, kExitEnvironment, kSoon);
  for (const int64_t rank : {0, 2}) {
    group.require_exit(rank, kExitPeer, kSoon);
    CHECK_THAT(group[rank].output(),
               ContainsSubstring("reported: out of memory: 3 GiB were asked for and not there"));
  }
}

TEST_CASE("leaving does not wait for a rank that is gone") {
  RankGroup group({"leaves_the_dead", 2});
  group.start_all();
  group.require_exit(0, kExitDone, kSoon);
}

TEST_CASE("what the group throws through a backward becomes an error that names the rank; the rest stays") {
  RankGroup group({"fails_in_backward", 2});
  group.start_all();
  group.require_exit(0, kExitPeer, kSoon);
  CHECK_THAT(group[0].output(), ContainsSubstring("as expected"));
}
