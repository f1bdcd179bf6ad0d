#include "amp/precision.h"

#include <ATen/Context.h>

#include "base/error.h"

#ifdef AMPCTL_WITH_CUDA
#include <ATen/cuda/CUDAContextLight.h>
#endif

namespace ampctl::amp {
namespace {

using config::Precision;

// Compute capabilities as major * 10 + minor.
constexpr int kTensorCoresFloat16 = 70;
constexpr int kArithmeticFloat16 = 53;
constexpr int kTensorCoresTf32Bfloat16 = 80;

std::string describe(const DeviceFacts& device) {
  if (!device.is_cuda) return "the CPU";
  return "a GPU of compute capability " + std::to_string(device.major) + "." + std::to_string(device.minor);
}

std::string absent_message(Precision precision, const DeviceFacts& device) {
  const std::string found = to_string(precision) + " was asked for, but " + describe(device) + " lacks it";
  if (precision == Precision::tf32) {
    return found + " (TF32 needs a GPU of compute capability 8.0 or newer); use amp.dtype: float32";
  }
  return found + " (float16 needs compute capability 5.3 or newer); use amp.dtype: float32";
}

std::string emulated_message(Precision precision, const DeviceFacts& device) {
  const std::string name = to_string(precision);
  if (!device.is_cuda) {
    return name +
           " on the CPU saves memory and follows the GPU's arithmetic, but is seldom faster than float32";
  }
  if (precision == Precision::bfloat16) {
    return "bfloat16 is only emulated on " + describe(device) +
           " (native from 8.0) and slow there; amp.dtype: float16 suits this GPU better";
  }
  return "float16 runs without tensor cores on " + describe(device) +
         " (they come with 7.0): it saves memory, but gains little speed";
}

}  // namespace

std::string to_string(Precision precision) {
  switch (precision) {
    case Precision::float32:
      return "float32";
    case Precision::tf32:
      return "tf32";
    case Precision::float16:
      return "float16";
    case Precision::bfloat16:
      return "bfloat16";
  }
  throw Error(ErrorKind::internal, "unknown precision " + std::to_string(static_cast<int>(precision)));
}

std::optional<c10::ScalarType> autocast_dtype(Precision precision) {
  if (precision == Precision::float16) return c10::kHalf;
  if (precision == Precision::bfloat16) return c10::kBFloat16;
  return std::nullopt;
}

DeviceFacts device_facts(const c10::Device& device) {
  if (!device.is_cuda()) return {};
#ifdef AMPCTL_WITH_CUDA
  const auto* properties = at::cuda::getDeviceProperties(device.has_index() ? device.index() : 0);
  return {true, properties->major, properties->minor};
#else
  throw environment_error(
      "a CUDA device was asked for, but this program was built without CUDA: configure with "
      "-DAMPCTL_CUDA=ON");
#endif
}

Support support(Precision precision, const DeviceFacts& device) {
  const int capability = device.major * 10 + device.minor;
  switch (precision) {
    case Precision::float32:
      return Support::native;
    case Precision::tf32:
      return device.is_cuda && capability >= kTensorCoresTf32Bfloat16 ? Support::native : Support::absent;
    case Precision::float16:
      if (!device.is_cuda) return Support::emulated;
      if (capability >= kTensorCoresFloat16) return Support::native;
      return capability >= kArithmeticFloat16 ? Support::emulated : Support::absent;
    case Precision::bfloat16:
      return device.is_cuda && capability >= kTensorCoresTf32Bfloat16 ? Support::native : Support::emulated;
  }
  throw Error(ErrorKind::internal, "unknown precision " + std::to_string(static_cast<int>(precision)));
}

std::optional<std::string> check_precision(Precision precision, const DeviceFacts& device) {
  switch (support(precision, device)) {
    case Support::native:
      return std::nullopt;
    case Support::emulated:
      return emulated_message(precision, device);
    case Support::absent:
      break;
  }
  throw environment_error(absent_message(precision, device));
}

void apply(const BackendFlags& flags) {
  auto& context = at::globalContext();
  const auto precision = flags.allow_tf32 ? at::Float32Precision::TF32 : at::Float32Precision::IEEE;
  for (const auto op : {at::Float32Op::MATMUL, at::Float32Op::CONV, at::Float32Op::RNN}) {
    context.setFloat32Precision(at::Float32Backend::CUDA, op, precision);
  }
  context.setBenchmarkCuDNN(flags.cudnn_benchmark && !flags.deterministic);
  context.setDeterministicCuDNN(flags.deterministic);
  context.setDeterministicAlgorithms(flags.deterministic, /*warn_only=*/true);
  // Filling every uninitialised tensor with NaN helps debugging only; no operator here reads one.
  context.setDeterministicFillUninitializedMemory(false);
}

}  // namespace ampctl::amp
