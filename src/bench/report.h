// Everything that one measurement found out, and its form for programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "bench/blocks.h"
#include "bench/device_limits.h"
#include "bench/profile.h"
#include "config/run_plan.h"

namespace ampctl::bench {

struct MemoryPeak {
  double allocated_gib = 0.0;  ///< by tensors, since the first step; 0 on the CPU
  double reserved_gib = 0.0;   ///< by the caching allocator, likewise
  double host_gib = 0.0;       ///< this process's resident memory, since its start
};

struct Report {
  std::string device;     ///< "NVIDIA H200"
  bool resident = false;  ///< one window of batches, kept on the device
  nlohmann::ordered_json libraries;
  bool cuda_graph = false;                   ///< steps were replayed as one
  std::optional<std::string> eager_reason;   ///< why not, where train.cuda_graph asks for it
  std::optional<double> first_step_seconds;  ///< from the start of the process
  BlockPlan blocks;
  BlockTimes times;
  MemoryPeak memory;
  double loss = 0.0;  ///< of the last step, a sample
  int64_t skipped_steps = 0;
  std::optional<int64_t> traffic_bytes;  ///< a step, operand_traffic() of this rank
  std::optional<DeviceLimits> limits;
  std::optional<Profile> profile;    ///< as training runs it
  std::optional<PhaseTimes> phases;  ///< of an eager step
};

/// This process's peak of resident memory.
[[nodiscard]] double host_peak_gib();

/// Throughput is that of all ranks; floating-point operations are those of convolutions and linear layers, a
/// forward pass three times, and like traffic and limits those of one device. Fields: docs/performance.md.
[[nodiscard]] nlohmann::ordered_json to_json(const Report& report, const config::RunPlan& plan);

}  // namespace ampctl::bench
