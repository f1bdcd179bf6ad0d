#include "rank_group.h"

#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "support/catch.h"
#include "support/free_port.h"

namespace ampctl::test {

bool can_name_hosts() { return run({"unshare", "--uts", "hostname", "host"}).exit_code == 0; }

RankGroup::RankGroup(GroupSetup setup)
    : setup_(std::move(setup)), port_(free_port()), ranks_(static_cast<size_t>(setup_.size)) {}

void RankGroup::start(int64_t rank) {
  std::vector<std::string> command{AMPCTL_DIST_RANK,      setup_.role,
                                   std::to_string(rank),  std::to_string(setup_.size),
                                   std::to_string(port_), std::to_string(setup_.timeout.count()),
                                   setup_.device};
  if (setup_.own_host_names) {
    const std::vector<std::string> with_name{"unshare", "--uts", "sh", "-c",
                                             R"(hostname "host$2" && exec "$0" "$@")"};
    command.insert(command.begin(), with_name.begin(), with_name.end());
  }
  // The ranks share few cores, more threads only get into each other's way; and c10d warns with stack traces
  // of the very failures that are tested.
  const std::vector<std::string> env{"OMP_NUM_THREADS=1", "TORCH_CPP_LOG_LEVEL=ERROR"};
  ranks_[static_cast<size_t>(rank)] =
      std::make_unique<BackgroundProcess>(command, logs_.path() / std::to_string(rank), env);
}

void RankGroup::start_all() {
  for (int64_t rank = 0; rank < setup_.size; ++rank) start(rank);
}

void RankGroup::require_exit(int64_t rank, int exit_code, std::chrono::milliseconds timeout) {
  auto& process = (*this)[rank];
  const auto code = process.wait(timeout);
  INFO(setup_.role << ", rank " << rank << " said:\n" << process.output());
  REQUIRE(code.has_value());
  REQUIRE(*code == exit_code);
}

void RankGroup::require_success() {
  for (int64_t rank = 0; rank < setup_.size; ++rank) require_exit(rank, kExitDone);
}

void RankGroup::require_said(int64_t rank, const std::string& text) {
  auto& process = (*this)[rank];
  const bool said =
      eventually([&] { return process.output().find(text) != std::string::npos; }, std::chrono::minutes(1));
  INFO(setup_.role << ", rank " << rank << " said:\n" << process.output());
  REQUIRE(said);
}

void require_role(const GroupSetup& setup) {
  RankGroup group(setup);
  group.start_all();
  group.require_success();
}

}  // namespace ampctl::test
