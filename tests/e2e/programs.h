// The programs under test, and a stand-in for the worker where only the front end is tested.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/process.h"

namespace ampctl::test {

/// Paths of the built programs.
inline const std::string kAmpctl = AMPCTL_PROGRAM;
inline const std::string kWorker = AMPCTL_WORKER_PROGRAM;

/// Runs `ampctl` with arguments. `env` adds variables ("NAME=value").
inline ProcessResult run_ampctl(std::vector<std::string> arguments,
                                const std::vector<std::string>& env = {}) {
  arguments.insert(arguments.begin(), kAmpctl);
  return run(arguments, env);
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

/// A shell script that stands in for the worker; returns the variable that makes `ampctl` use it.
inline std::string fake_worker(const TempDir& folder, const std::string& body) {
  const auto path = folder.path() / "fake-worker";
  write_text(path, "#!/bin/sh\n" + body + "\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return "AMPCTL_WORKER=" + path.string();
}

/// A right configuration that needs no data: synthetic images, lenet, on the CPU.
inline std::string small_experiment() {
  return R"(device: cpu
model: {name: lenet}
data:
  batch_size: 10
  train: {format: synthetic, num_samples: 105, image_size: 28, channels: 1, num_classes: 10}
train: {epochs: 2}
output: runs/small
)";
}

}  // namespace ampctl::test
