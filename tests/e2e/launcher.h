// Runs of `ampctl train` with tests/launch/light_worker.cpp in the worker's place.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

#include "support/background_process.h"
#include "support/process.h"

namespace ampctl::test {

class LightRun {
 public:
  using Words = std::vector<std::string>;

  LightRun();

  /// To its end. `flags` follow `train -c FILE`; `env` has the light worker's orders ("LIGHT_…=…").
  [[nodiscard]] ProcessResult run(const Words& flags, const Words& env = {}) const;
  /// Beside the test.
  [[nodiscard]] std::unique_ptr<BackgroundProcess> start(const Words& flags, const Words& env = {}) const;

  /// Living workers of this run's launchers: process id by rank.
  [[nodiscard]] std::map<int64_t, pid_t> workers() const;
  /// Waits until so many live.
  [[nodiscard]] bool has_workers(std::size_t count) const;

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }
  [[nodiscard]] std::filesystem::path logs() const { return folder() / "run" / "logs"; }
  /// A file's text; "" when there is none.
  [[nodiscard]] static std::string text(const std::filesystem::path& path);

 private:
  [[nodiscard]] Words command(const Words& flags) const;
  [[nodiscard]] Words environment(const Words& env) const;

  TempDir folder_;
};

/// Enough for anything that should happen at once, also on a busy machine.
inline constexpr std::chrono::seconds kSoon{30};

}  // namespace ampctl::test
