#include "library_versions.h"

#include <optional>
#include <string>

#include <dlfcn.h>

#include <ATen/detail/CUDAHooksInterface.h>
#include <torch/version.h>

namespace ampctl::worker {
namespace {

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

}  // namespace

std::string cuda_version_text(long number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

nlohmann::ordered_json library_versions() {
  const auto& hooks = at::detail::getCUDAHooks();
  nlohmann::ordered_json out;
  out["libtorch"] = TORCH_VERSION;
  out["cuda_built"] = nullptr;
  out["cudnn"] = nullptr;
  out["nccl"] = nullptr;
  if (hooks.hasCUDART()) out["cuda_built"] = cuda_version_text(hooks.versionCUDART());
  if (hooks.compiledWithCuDNN()) out["cudnn"] = three_part_version(hooks.versionRuntimeCuDNN());
  if (const auto version = nccl_version()) out["nccl"] = three_part_version(*version);
  return out;
}

}  // namespace ampctl::worker
