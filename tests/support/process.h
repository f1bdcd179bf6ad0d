// Runs real programs from tests, as a user would.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace ampctl::test {

struct ProcessResult {
  int exit_code = -1;  ///< as a shell reports it: 128 + N when ended by signal N
  std::string out;
  std::string err;
};

/// Replaces this (forked) process by a command found on PATH, with `env` ("NAME=value") added to its
/// environment; ends with 127, as a shell, when it cannot be started.
[[noreturn]] void exec_command(const std::vector<std::string>& command, const std::vector<std::string>& env);

/// Runs a command to its end. `env` entries ("NAME=value") are added to this process's environment.
/// A command still running after `timeout` is killed and reported as exit code 137.
ProcessResult run(const std::vector<std::string>& command, const std::vector<std::string>& env = {},
                  std::chrono::seconds timeout = std::chrono::seconds(300));

/// The Python that the build found (with torch, torchvision); empty when there is none.
std::string python();

/// True when that Python can import every module named; tests skip with a message otherwise.
bool python_has(const std::vector<std::string>& modules);

/// The project's root folder, and the folder with shared test data ("" when absent).
std::filesystem::path source_dir();
std::filesystem::path shared_data_dir();

/// A folder of this test's own, removed at the end of its scope.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace ampctl::test
