#include "launch/attempt_result.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <map>

#include "base/error.h"
#include "base/format.h"

namespace ampctl::launch {
namespace {

constexpr int kSignalBase = 128;

std::string ending(const WorkerEnd& end) {
  if (end.signal == 0) return "exit code " + std::to_string(end.exit_code);
  return "signal " + std::to_string(end.signal) + " (" + strsignal(end.signal) + ")";
}

std::string meaning(const WorkerEnd& end) {
  if (end.signal == SIGKILL) return ": killed from outside, or by the kernel for want of memory (see dmesg)";
  if (end.signal != 0) return "";
  switch (end.exit_code) {
    case kExitInternal:
      return ": internal error";
    case kExitUsage:
      return ": usage or configuration";
    case kExitEnvironment:
      return ": device, library, file system or data";
    case kExitDiverged:
      return ": training diverged";
    case kExitPeer:
      return ": another rank or the process group failed";
    default:
      return "";
  }
}

const WorkerEnd* find_cause(const std::vector<WorkerEnd>& ends) {
  const auto first = [&](const auto& wanted) -> const WorkerEnd* {
    const auto found = std::find_if(ends.begin(), ends.end(), wanted);
    return found == ends.end() ? nullptr : &*found;
  };
  const auto is_peer = [](const WorkerEnd& end) { return end.signal == 0 && end.exit_code == kExitPeer; };
  const auto own = [&](const WorkerEnd& end) { return end.failed() && !end.ended_by_us; };
  if (const auto* cause = first([&](const WorkerEnd& end) { return own(end) && !is_peer(end); }))
    return cause;
  if (const auto* cause = first(own)) return cause;
  return first([](const WorkerEnd& end) { return end.failed(); });
}

// "ranks 0,2-3 exit code 5", one entry a way of ending.
std::string others_text(const AttemptResult& result, const WorkerEnd& cause) {
  std::map<std::string, std::vector<int64_t>> ways;
  for (const auto& end : result.ends) {
    if (end.rank == cause.rank) continue;
    const bool by_request = end.ended_by_us && (end.signal == SIGTERM || end.signal == SIGKILL);
    ways[by_request ? "ended by the launcher" : ending(end)].push_back(end.rank);
  }
  std::string text;
  for (const auto& [way, ranks] : ways) {
    text += (text.empty() ? "" : "; ") + std::string(ranks.size() == 1 ? "rank " : "ranks ") +
            ranks_text(ranks) + " " + way;
  }
  return text;
}

// What other ranks that failed by themselves say, each text once.
std::string other_messages(const AttemptResult& result, const WorkerEnd& cause) {
  std::map<std::string, std::vector<int64_t>> ranks;
  for (const auto& end : result.ends) {
    const bool consequence = end.ended_by_us || (end.signal == 0 && end.exit_code == kExitPeer);
    if (end.failed() && !consequence && !end.message.empty() && end.message != cause.message)
      ranks[end.message].push_back(end.rank);
  }
  std::string text;
  for (const auto& [message, who] : ranks) {
    text += std::string("\n  ") + (who.size() == 1 ? "rank " : "ranks ") + ranks_text(who) +
            (who.size() == 1 ? " says: " : " say: ") + printable(message);
  }
  return text;
}

}  // namespace

bool WorkerEnd::failed() const {
  return signal != 0 || (exit_code != kExitDone && exit_code != kExitPreempted);
}

Verdict judge(const AttemptResult& result) {
  Verdict verdict;
  const WorkerEnd* cause = find_cause(result.ends);
  if (cause == nullptr) {
    const bool preempted = std::any_of(result.ends.begin(), result.ends.end(),
                                       [](const WorkerEnd& end) { return end.exit_code == kExitPreempted; });
    verdict.exit_code = preempted ? kExitPreempted : kExitDone;
    return verdict;
  }
  verdict.cause = *cause;
  const bool as_asked =
      result.requested && cause->signal != 0 && (cause->signal == *result.requested || cause->ended_by_us);
  if (as_asked) {
    verdict.exit_code = kSignalBase + *result.requested;
  } else {
    verdict.exit_code = cause->signal != 0 ? static_cast<int>(kExitPeer) : cause->exit_code;
  }
  verdict.restartable =
      !result.requested && (verdict.exit_code == kExitPeer || verdict.exit_code == kExitEnvironment);
  return verdict;
}

std::string failure_report(const AttemptResult& result, const WorkerEnd& cause, const std::string& host,
                           const std::string& logs) {
  std::string text = "rank " + std::to_string(cause.rank) + " on " + host + " (process " +
                     std::to_string(cause.pid) + ") failed first, after " + format_duration(cause.seconds) +
                     ", with " + ending(cause) + meaning(cause);
  if (!cause.message.empty()) text += "\n  it says: " + printable(cause.message);
  if (!result.stopped.empty()) {
    text += std::string("\n  stopped by a signal (SIGSTOP), which may be why: ") +
            (result.stopped.size() == 1 ? "rank " : "ranks ") + ranks_text(result.stopped);
  }
  const std::string others = others_text(result, cause);
  if (!others.empty()) text += "\n  the others: " + others;
  text += other_messages(result, cause);
  if (!logs.empty()) text += "\n  its output: " + logs;
  return text;
}

std::string ranks_text(std::vector<int64_t> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::string text;
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(ranks[first]);
    if (last > first) text += "-" + std::to_string(ranks[last]);
    first = last + 1;
  }
  return text;
}

}  // namespace ampctl::launch
