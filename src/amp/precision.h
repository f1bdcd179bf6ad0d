// What a device can do in each precision, and LibTorch's global switches that go with the choice.
#pragma once

#include <optional>
#include <string>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "config/run_plan.h"

namespace ampctl::amp {

/// "float32", "tf32", "float16", "bfloat16": the names of the configuration.
[[nodiscard]] std::string to_string(config::Precision precision);

/// The type that matrix products run in under autocast; nullopt where autocast stays off (float32, tf32).
[[nodiscard]] std::optional<c10::ScalarType> autocast_dtype(config::Precision precision);

/// Compute capability decides; `major` and `minor` mean nothing on the CPU.
struct DeviceFacts {
  bool is_cuda = false;
  int major = 0;
  int minor = 0;
};

/// Reads the facts of one device. Throws an environment error for a CUDA device in a build without CUDA.
[[nodiscard]] DeviceFacts device_facts(const c10::Device& device);

enum class Support {
  native,    ///< the hardware computes in it, at its speed
  emulated,  ///< results are right, but there is no speed to gain
  absent,    ///< cannot run
};

/// Source: CUDA C++ Programming Guide, compute capabilities. CUDA: tf32 and bfloat16 are native from 8.0
/// (bfloat16 emulated below); float16 is native from 7.0 (tensor cores), emulated from 5.3 (arithmetic
/// without tensor cores), absent below. CPU: float16 and bfloat16 count as emulated, tf32 is absent.
[[nodiscard]] Support support(config::Precision precision, const DeviceFacts& device);

/// Throws an environment error for an absent precision; returns a warning for an emulated one.
[[nodiscard]] std::optional<std::string> check_precision(config::Precision precision,
                                                         const DeviceFacts& device);

struct BackendFlags {
  bool allow_tf32 = false;       ///< for what runs in float32 on the GPU: matrix products and convolutions
  bool cudnn_benchmark = false;  ///< times convolution algorithms per shape; ignored when deterministic
  /// Only operators that repeat bit for bit; LibTorch warns where one has no such variant. cuBLAS needs
  /// CUBLAS_WORKSPACE_CONFIG=:4096:8 in the environment besides.
  bool deterministic = false;
};

/// Sets LibTorch's process-wide switches. TF32 goes through setFloat32Precision alone: LibTorch raises errors
/// later when the older allow_tf32 setters are used beside it.
void apply(const BackendFlags& flags);

}  // namespace ampctl::amp
