// A real program running beside a test: started, signalled, waited for.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace ampctl::test {

class BackgroundProcess {
 public:
  /// Standard output and error go to `log`. `env` as in test::run.
  BackgroundProcess(const std::vector<std::string>& command, std::filesystem::path log,
                    const std::vector<std::string>& env = {});
  /// Kills what is still running.
  ~BackgroundProcess();
  BackgroundProcess(const BackgroundProcess&) = delete;
  BackgroundProcess& operator=(const BackgroundProcess&) = delete;

  void signal(int number) const;
  /// The exit code as a shell reports it (128 + N when ended by signal N); nullopt when still running at the
  /// end of `timeout`.
  std::optional<int> wait(std::chrono::milliseconds timeout);
  [[nodiscard]] std::string output() const;
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  std::filesystem::path log_;
  pid_t pid_ = -1;
  std::optional<int> exit_code_;
};

/// Looks until `condition` holds or `timeout` has passed; returns whether it held.
bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds timeout);

}  // namespace ampctl::test
