#include "probe.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>

#include <dlfcn.h>
#include <nlohmann/json.hpp>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <torch/version.h>

#include "base/error.h"
#include "cuda_driver.h"

namespace ampctl::worker {
namespace {

using Json = nlohmann::ordered_json;

// CUDA: 13000 is 13.0.
std::string cuda_version(long number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

// cuDNN since 9 and NCCL since 2.9: 91900 is 9.19.0.
std::string three_part_version(long number) {
  return std::to_string(number / 10000) + "." + std::to_string(number % 10000 / 100) + "." +
         std::to_string(number % 100);
}

// NCCL comes in as a dependency of LibTorch's CUDA part; its header is not needed for one function.
std::optional<int> nccl_version() {
  const auto get_version = reinterpret_cast<int (*)(int*)>(dlsym(RTLD_DEFAULT, "ncclGetVersion"));
  int version = 0;
  if (get_version == nullptr || get_version(&version) != 0) return std::nullopt;
  return version;
}

void add_libraries(Json& out) {
  const auto& hooks = at::detail::getCUDAHooks();
  out["libtorch"] = TORCH_VERSION;
  out["cuda_built"] = nullptr;
  out["cudnn"] = nullptr;
  out["nccl"] = nullptr;
  if (hooks.hasCUDART()) out["cuda_built"] = cuda_version(hooks.versionCUDART());
  if (hooks.compiledWithCuDNN()) out["cudnn"] = three_part_version(hooks.versionRuntimeCuDNN());
  if (const auto version = nccl_version()) out["nccl"] = three_part_version(*version);
}

// Opens the device, as training would; nothing but the reason when that fails.
Json free_memory(int64_t index, std::optional<std::string>& error) {
  try {
    at::globalContext().lazyInitDevice(c10::kCUDA);
    const auto device = static_cast<c10::DeviceIndex>(index);
    return at::getDeviceAllocator(c10::kCUDA)->getMemoryInfo(device).first;
  } catch (const c10::Error& failure) {
    error = "GPU " + std::to_string(index) + ": " + failure.what_without_backtrace();
    return nullptr;
  }
}

void add_gpus(Json& out) {
  CudaDriver driver = read_cuda_driver();
  out["cuda_driver"] = nullptr;
  if (driver.cuda_version) out["cuda_driver"] = cuda_version(*driver.cuda_version);

  const int64_t usable = at::detail::getCUDAHooks().getNumGPUs();
  const auto listed = static_cast<int64_t>(driver.gpus.size());
  if (usable < listed) {
    driver.error = "LibTorch can use " + std::to_string(usable) + " of the driver's " +
                   std::to_string(listed) + " GPUs; the driver supports CUDA " +
                   cuda_version(driver.cuda_version.value_or(0));
  }
  out["gpus"] = Json::array();
  for (int64_t index = 0; index < std::min(usable, listed); ++index) {
    const DriverGpu& gpu = driver.gpus[static_cast<std::size_t>(index)];
    out["gpus"].push_back(
        {{"index", index},
         {"name", gpu.name},
         {"compute_capability", Json::array({gpu.compute_capability_major, gpu.compute_capability_minor})},
         {"total_memory_bytes", gpu.total_memory_bytes},
         {"free_memory_bytes", free_memory(index, driver.error)},
         {"multiprocessors", gpu.multiprocessors}});
  }
  out["cuda_error"] = nullptr;
  if (driver.error) out["cuda_error"] = *driver.error;
}

}  // namespace

int run_probe() {
  Json out;
  add_libraries(out);
  out["openmp_threads"] = at::get_num_threads();
  add_gpus(out);
  std::puts(out.dump().c_str());
  return kExitDone;
}

}  // namespace ampctl::worker
