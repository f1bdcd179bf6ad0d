// What a machine's facts mean for training.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/host.h"
#include "launch/probe.h"

namespace ampctl::launch {

enum class Support {
  none,      ///< refused
  emulated,  ///< computed in another precision: correct, and slower than float32
  native,    ///< has its own instructions
};
[[nodiscard]] const char* to_string(Support support);

/// What a device can compute in.
struct PrecisionSupport {
  Support float16 = Support::none;
  Support bfloat16 = Support::none;
  Support tf32 = Support::none;
  Support fp8 = Support::none;
};

/// By compute capability, from NVIDIA's table of arithmetic instructions and tensor core types (CUDA C++
/// Programming Guide, "Compute Capabilities"): float16 from 7.0, bfloat16 and TF32 from 8.0, FP8 from 8.9.
[[nodiscard]] PrecisionSupport precision_support(const ComputeCapability& capability);

/// By the CPU's instruction sets, as Host::cpu_precision names them.
[[nodiscard]] PrecisionSupport precision_support(const std::vector<std::string>& cpu_precision);

/// Something that will hurt a training run, and what to do about it.
struct Finding {
  std::string problem;
  std::string remedy;
};

/// Findings, the gravest first. No probe: the worker could not be asked.
[[nodiscard]] std::vector<Finding> examine(const Host& host, const std::optional<Probe>& probe);

}  // namespace ampctl::launch
