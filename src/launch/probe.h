// What only LibTorch knows about this machine, asked from `ampctl-worker --probe`.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ampctl::launch {

struct ComputeCapability {
  int major = 0;
  int minor = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the defaulted operator's 0 for a pointer
  friend auto operator<=>(const ComputeCapability&, const ComputeCapability&) = default;
};

struct Gpu {
  int64_t index = 0;
  std::string name;
  ComputeCapability compute_capability;
  uint64_t total_memory_bytes = 0;
  std::optional<uint64_t> free_memory_bytes;  ///< nothing when the device could not be opened
  int64_t multiprocessors = 0;
};

struct Probe {
  std::string libtorch;                    ///< version, e.g. "2.11.0"
  std::optional<std::string> cuda_built;   ///< CUDA that LibTorch was built with, e.g. "13.0"
  std::optional<std::string> cuda_driver;  ///< newest CUDA that the driver supports
  std::optional<std::string> cudnn;
  std::optional<std::string> nccl;
  int64_t openmp_threads = 0;
  std::vector<Gpu> gpus;
  std::optional<std::string> cuda_error;  ///< why there are no (or fewer) GPUs
};

/// Reads the worker's answer: one JSON object with the fields above; compute_capability as [major, minor].
/// Throws an environment error when it is not such an object.
[[nodiscard]] Probe parse_probe(const std::string& json);

/// Runs `worker --probe`. Throws an environment error, with the worker's own message, when it fails or does
/// not answer in time.
[[nodiscard]] Probe run_probe(const std::filesystem::path& worker,
                              std::chrono::seconds timeout = std::chrono::seconds(60));

}  // namespace ampctl::launch
