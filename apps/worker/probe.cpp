#include "probe.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "base/error.h"
#include "cuda_driver.h"
#include "library_versions.h"

namespace ampctl::worker {
namespace {

using Json = nlohmann::ordered_json;

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
  if (driver.cuda_version) out["cuda_driver"] = cuda_version_text(*driver.cuda_version);

  const int64_t usable = at::detail::getCUDAHooks().getNumGPUs();
  const auto listed = static_cast<int64_t>(driver.gpus.size());
  if (usable < listed) {
    driver.error = "LibTorch can use " + std::to_string(usable) + " of the driver's " +
                   std::to_string(listed) + " GPUs; the driver supports CUDA " +
                   cuda_version_text(driver.cuda_version.value_or(0));
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
  Json out = library_versions();
  out["openmp_threads"] = at::get_num_threads();
  add_gpus(out);
  std::puts(out.dump().c_str());
  return kExitDone;
}

}  // namespace ampctl::worker
