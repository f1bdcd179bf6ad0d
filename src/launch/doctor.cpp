#include "launch/doctor.h"

#include <algorithm>
#include <charconv>

#include "base/units.h"

namespace ampctl::launch {
namespace {

constexpr uint64_t kGibibyte = uint64_t{1} << 30;

constexpr ComputeCapability kFloat16{7, 0};
constexpr ComputeCapability kBfloat16{8, 0};
constexpr ComputeCapability kFp8{8, 9};
// LibTorch's builds for CUDA 13 hold no code for older devices, as CUDA 13 itself compiles none.
constexpr ComputeCapability kOldestGpu{7, 5};
// CUDA 13.x release notes, table of minimum driver versions.
constexpr int kCuda13Driver = 580;

constexpr uint64_t kSmallSharedMemory = 1 * kGibibyte;
constexpr uint64_t kLowDisk = 2 * kGibibyte;
constexpr uint64_t kLowMemory = 2 * kGibibyte;
// Above what the probe's own context takes.
constexpr uint64_t kBusyGpuMemory = 1 * kGibibyte;
constexpr int64_t kCoresPerGpu = 4;

int major_version(const std::string& version) {
  int value = 0;
  std::from_chars(version.data(), version.data() + version.size(), value);
  return value;
}

using Findings = std::vector<Finding>;

void examine_driver(const Host& host, const Probe& probe, Findings& findings) {
  if (!probe.cuda_built) {
    findings.push_back({"this LibTorch was built without CUDA", "runs use the CPU (device: cpu)"});
    return;
  }
  const bool needs_newer = host.nvidia_driver && probe.gpus.empty() &&
                           major_version(*probe.cuda_built) >= 13 &&
                           major_version(*host.nvidia_driver) < kCuda13Driver;
  if (needs_newer) {
    findings.push_back(
        {"the NVIDIA driver " + *host.nvidia_driver + " is too old for CUDA " + *probe.cuda_built,
         "install driver " + std::to_string(kCuda13Driver) + " or newer"});
  } else if (probe.gpus.empty()) {
    findings.push_back(
        {"no usable GPU: " + probe.cuda_error.value_or("none found"),
         "use device: cpu, or device: auto in files that other machines share; in a container, "
         "start it with its GPUs (docker run --gpus all)"});
  } else if (probe.cuda_error) {
    findings.push_back({"not every GPU can be used: " + *probe.cuda_error,
                        "look at nvidia-smi, or leave the device out with CUDA_VISIBLE_DEVICES"});
  }
}

void examine_gpus(const Probe& probe, Findings& findings) {
  for (const auto& gpu : probe.gpus) {
    const std::string name = "GPU " + std::to_string(gpu.index) + " (" + gpu.name + ")";
    const auto& capability = gpu.compute_capability;
    if (capability < kOldestGpu) {
      findings.push_back({name + " has compute capability " + std::to_string(capability.major) + "." +
                              std::to_string(capability.minor) + ", which this LibTorch holds no code for",
                          "use a GPU of 7.5 (Turing) or newer, or device: cpu"});
    } else if (precision_support(capability).bfloat16 == Support::emulated) {
      findings.push_back({name + " only emulates bfloat16", "use amp.dtype: float16 there"});
    }
    if (gpu.free_memory_bytes && gpu.total_memory_bytes > *gpu.free_memory_bytes + kBusyGpuMemory) {
      findings.push_back({name + ": " + format_bytes(gpu.total_memory_bytes - *gpu.free_memory_bytes) +
                              " of its memory is in use by others",
                          "see nvidia-smi for who uses it; throughput and memory limits will suffer"});
    }
  }
}

void examine_cores(const Host& host, const std::optional<Probe>& probe, Findings& findings) {
  const int64_t gpus = probe ? static_cast<int64_t>(probe->gpus.size()) : 0;
  if (host.usable_cores <= 0) return;
  const std::string of = host.cores > host.usable_cores ? " (of " + std::to_string(host.cores) + ")" : "";
  if (gpus > 0 && host.usable_cores < gpus * kCoresPerGpu) {
    findings.push_back(
        {std::to_string(host.usable_cores) + " usable CPU cores" + of + " for " + std::to_string(gpus) +
             (gpus == 1 ? " GPU" : " GPUs"),
         "decoding images may hold the GPUs back: raise the container's or job's CPU limit, keep "
         "data.num_workers near the number of cores, and watch the data wait in the log"});
  } else if (host.usable_cores == 1) {
    findings.push_back({"only one CPU core is usable" + of,
                        "loading and computing take turns: raise the container's or job's CPU limit"});
  }
}

void examine_space(const Host& host, Findings& findings) {
  const uint64_t memory =
      std::min(host.available_memory_bytes, host.memory_limit_bytes.value_or(host.available_memory_bytes));
  if (host.memory_bytes > 0 && memory < kLowMemory) {
    findings.push_back({"only " + format_bytes(memory) + " of memory to use",
                        "lower data.batch_size, data.num_workers or data.prefetch_factor"});
  }
  if (host.disk && host.disk->free_bytes < kLowDisk) {
    findings.push_back({"only " + format_bytes(host.disk->free_bytes) + " left on this folder's disk",
                        "free some, point output elsewhere, or lower checkpoint.keep"});
  }
  if (!host.shared_memory) {
    findings.push_back({"/dev/shm is not mounted", "mount it: several GPUs talk through it (NCCL)"});
  } else if (host.shared_memory->total_bytes < kSmallSharedMemory) {
    findings.push_back({"/dev/shm holds only " + format_bytes(host.shared_memory->total_bytes),
                        "several GPUs talk through it (NCCL): docker run --shm-size=8g, or --ipc=host"});
  }
}

}  // namespace

const char* to_string(Support support) {
  switch (support) {
    case Support::emulated:
      return "emulated";
    case Support::native:
      return "native";
    case Support::none:
      break;
  }
  return "no";
}

PrecisionSupport precision_support(const ComputeCapability& capability) {
  PrecisionSupport support;
  support.float16 = capability >= kFloat16 ? Support::native : Support::emulated;
  support.bfloat16 = capability >= kBfloat16 ? Support::native : Support::emulated;
  support.tf32 = capability >= kBfloat16 ? Support::native : Support::none;
  support.fp8 = capability >= kFp8 ? Support::native : Support::none;
  return support;
}

PrecisionSupport precision_support(const std::vector<std::string>& cpu_precision) {
  const auto has = [&](const char* name) {
    return std::find(cpu_precision.begin(), cpu_precision.end(), name) != cpu_precision.end();
  };
  PrecisionSupport support;
  support.float16 = has("avx512_fp16") || has("amx_fp16") ? Support::native : Support::emulated;
  support.bfloat16 = has("avx512_bf16") || has("amx_bf16") ? Support::native : Support::emulated;
  return support;
}

std::vector<Finding> examine(const Host& host, const std::optional<Probe>& probe) {
  Findings findings;
  if (probe) {
    examine_driver(host, *probe, findings);
    examine_gpus(*probe, findings);
  }
  examine_cores(host, probe, findings);
  examine_space(host, findings);
  return findings;
}

}  // namespace ampctl::launch
