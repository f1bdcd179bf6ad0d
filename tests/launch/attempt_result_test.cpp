#include "launch/attempt_result.h"

#include <csignal>

#include "base/error.h"
#include "support/catch.h"
#include "support/matchers.h"

using ampctl::launch::AttemptResult;
using ampctl::launch::failure_report;
using ampctl::launch::judge;
using ampctl::launch::ranks_text;
using ampctl::launch::WorkerEnd;
using ampctl::test::ContainsSubstring;

namespace {

WorkerEnd with_code(int64_t rank, int code, bool by_us = false) {
  WorkerEnd end;
  end.rank = rank;
  end.pid = 4711;
  end.exit_code = code;
  end.ended_by_us = by_us;
  return end;
}

WorkerEnd by_signal(int64_t rank, int signal, bool by_us = false) {
  WorkerEnd end = with_code(rank, 0, by_us);
  end.signal = signal;
  return end;
}

AttemptResult result_of(std::vector<WorkerEnd> ends, std::optional<int> requested = {}) {
  return {std::move(ends), {}, requested};
}

}  // namespace

TEST_CASE("All done is 0; all preempted, or done and preempted, is 75 and never restarted") {
  CHECK(judge(result_of({with_code(0, 0), with_code(1, 0)})).exit_code == 0);
  const auto verdict = judge(result_of({with_code(0, 75), with_code(1, 75)}, SIGUSR1));
  CHECK(verdict.exit_code == 75);
  CHECK_FALSE(verdict.cause);
  CHECK_FALSE(verdict.restartable);
  CHECK(judge(result_of({with_code(0, 0), with_code(1, 75)})).exit_code == 75);
}

TEST_CASE("The earliest failure is the cause, but 5 only when there is no other") {
  CHECK(judge(result_of({with_code(2, 3), with_code(0, 1)})).cause->rank == 2);
  CHECK(judge(result_of({with_code(0, 5), with_code(2, 5), with_code(1, 3)})).cause->rank == 1);
  CHECK(judge(result_of({with_code(0, 5), by_signal(1, SIGKILL)})).cause->rank == 1);
  CHECK(judge(result_of({with_code(3, 5), with_code(0, 5)})).cause->rank == 3);
  CHECK(judge(result_of({with_code(0, 75), with_code(1, 4)})).exit_code == 4);
}

TEST_CASE("Ends that the launcher brought about are no cause") {
  CHECK(judge(result_of({with_code(0, 5), by_signal(1, SIGKILL, true), with_code(2, 1, true)})).cause->rank ==
        0);
  CHECK(judge(result_of({with_code(1, 3), with_code(0, 75, true)})).exit_code == 3);
}

TEST_CASE("The cause's exit code is the launcher's; a signal is 5") {
  for (const int code : {1, 2, 3, 4, 5, 17}) CHECK(judge(result_of({with_code(0, code)})).exit_code == code);
  CHECK(judge(result_of({by_signal(0, SIGSEGV)})).exit_code == 5);
}

TEST_CASE("Environment, peers and signals may be restarted; usage, divergence and internal errors not") {
  CHECK(judge(result_of({with_code(0, 3)})).restartable);
  CHECK(judge(result_of({with_code(0, 5)})).restartable);
  CHECK(judge(result_of({by_signal(0, SIGKILL)})).restartable);
  for (const int code : {0, 1, 2, 4, 75}) CHECK_FALSE(judge(result_of({with_code(0, code)})).restartable);
}

TEST_CASE("After a request to stop nothing is restarted, and an end by that signal is 128 and its number") {
  CHECK_FALSE(judge(result_of({with_code(0, 5)}, SIGTERM)).restartable);
  CHECK(judge(result_of({with_code(0, 5)}, SIGTERM)).exit_code == 5);
  CHECK(judge(result_of({by_signal(0, SIGTERM)}, SIGTERM)).exit_code == 143);
  CHECK(judge(result_of({by_signal(0, SIGINT)}, SIGINT)).exit_code == 130);
  CHECK(judge(result_of({by_signal(0, SIGKILL, true)}, SIGINT)).exit_code == 130);
  CHECK(judge(result_of({by_signal(0, SIGKILL)}, SIGTERM)).exit_code == 5);
}

TEST_CASE(
    "A failure's report names rank, host, process, how and when it ended, what it says, and the others") {
  WorkerEnd cause = with_code(1, 3);
  cause.seconds = 12.0;
  cause.message = "data/train does not exist\x1b[2J";
  AttemptResult result =
      result_of({with_code(0, 5), cause, with_code(2, 5), by_signal(3, SIGTERM, true), with_code(4, 5)});
  result.stopped = {3};
  const std::string report = failure_report(result, cause, "gpu1", "logs/attempt_0/1/stderr.log");
  CHECK_THAT(report, ContainsSubstring("rank 1 on gpu1 (process 4711) failed first, after 12s") &&
                         ContainsSubstring("exit code 3: device, library, file system or data") &&
                         ContainsSubstring("it says: data/train does not exist?[2J") &&
                         ContainsSubstring("ranks 0,2,4 exit code 5") &&
                         ContainsSubstring("rank 3 ended by the launcher") && ContainsSubstring("SIGSTOP") &&
                         ContainsSubstring("logs/attempt_0/1/stderr.log"));
  const WorkerEnd killed = by_signal(7, SIGKILL);
  CHECK_THAT(failure_report(result_of({killed}), killed, "gpu1", ""),
             ContainsSubstring("signal 9 (Killed)") && ContainsSubstring("dmesg"));
}

TEST_CASE("Reasons of several ranks are each said once, consequences not at all") {
  WorkerEnd first = with_code(0, 3);
  first.message = "no disk";
  WorkerEnd same = with_code(1, 3);
  same.message = "no disk";
  WorkerEnd other = with_code(2, 2);
  other.message = "unknown key";
  WorkerEnd peer = with_code(3, 5);
  peer.message = "rank 0 is gone";
  const std::string report = failure_report(result_of({first, same, other, peer}), first, "gpu1", "");
  CHECK_THAT(report, ContainsSubstring("it says: no disk") && ContainsSubstring("rank 2 says: unknown key") &&
                         !ContainsSubstring("rank 0 is gone"));
  CHECK(report.find("no disk") == report.rfind("no disk"));
}

TEST_CASE("Ranks are listed in ranges") {
  CHECK(ranks_text({3, 0, 1, 2, 8}) == "0-3,8");
  CHECK(ranks_text({}).empty());
}
