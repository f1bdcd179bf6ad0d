// Several ranks as real processes on this host.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "support/background_process.h"
#include "support/process.h"

namespace ampctl::test {

struct GroupSetup {
  std::string role;
  int64_t size = 2;
  std::chrono::milliseconds timeout{std::chrono::seconds(60)};  ///< of collectives and of joining
  std::string device = "cpu";
  bool own_host_names = false;  ///< each rank believes to be on a host of its own
};

/// Whether this process may give others a host name of their own.
bool can_name_hosts();

class RankGroup {
 public:
  explicit RankGroup(GroupSetup setup);

  void start(int64_t rank);
  /// Starts every rank.
  void start_all();

  [[nodiscard]] BackgroundProcess& operator[](int64_t rank) { return *ranks_[static_cast<size_t>(rank)]; }
  [[nodiscard]] uint16_t port() const { return port_; }

  /// Waits for a rank; fails the test with its output when it does not end, or not with `exit_code`.
  void require_exit(int64_t rank, int exit_code, std::chrono::milliseconds timeout = std::chrono::minutes(2));
  /// Waits for all ranks to end well.
  void require_success();
  /// Waits until a rank has said `text`.
  void require_said(int64_t rank, const std::string& text);

 private:
  GroupSetup setup_;
  uint16_t port_;
  TempDir logs_;
  std::vector<std::unique_ptr<BackgroundProcess>> ranks_;
};

/// Starts the ranks of one role and waits for all to end well.
void require_role(const GroupSetup& setup);

}  // namespace ampctl::test
