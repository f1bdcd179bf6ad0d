// What this machine offers to a process, read from the kernel's files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ampctl::launch {

struct Space {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;  ///< for this user
};

struct Host {
  std::string os;      ///< e.g. "Debian GNU/Linux 12 (bookworm)"
  std::string kernel;  ///< e.g. "6.1.0-13-amd64"
  std::string cpu_model;
  std::vector<std::string> cpu_precision;  ///< 16-bit instructions of the CPU: avx512_bf16, amx_bf16, …
  int64_t cores = 0;                       ///< online
  int64_t usable_cores = 0;                ///< of this process: affinity and the control group's quota
  uint64_t memory_bytes = 0;               ///< of the machine
  uint64_t available_memory_bytes = 0;
  std::optional<uint64_t> memory_limit_bytes;  ///< of the control group, when below the machine's
  std::optional<Space> shared_memory;          ///< /dev/shm; nothing when not mounted
  std::optional<Space> disk;                   ///< of the folder asked about
  std::optional<std::string> nvidia_driver;    ///< kernel module's version; nothing when not loaded
};

/// Reads all of it; whatever cannot be read stays empty. `root` stands in for "/" in tests, `folder` is where
/// a run would write.
[[nodiscard]] Host read_host(const std::filesystem::path& folder, const std::filesystem::path& root = "/");

/// CPUs' worth of time that the process's control group (version 1 or 2) allows; nothing without a quota.
[[nodiscard]] std::optional<double> cpu_quota(const std::filesystem::path& root);

/// Bytes that the process's control group (version 1 or 2) allows; nothing without a limit.
[[nodiscard]] std::optional<uint64_t> memory_limit(const std::filesystem::path& root);

}  // namespace ampctl::launch
