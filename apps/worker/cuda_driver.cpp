#include "cuda_driver.h"

#include <array>
#include <cstddef>
#include <stdexcept>

#include <dlfcn.h>

namespace ampctl::worker {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

// Of the driver's stable binary interface (cuda.h): CUresult, CUdevice and CUdevice_attribute are ints there.
constexpr int kSuccess = 0;
constexpr int kAttributeMultiprocessorCount = 16;
constexpr int kAttributeComputeCapabilityMajor = 75;
constexpr int kAttributeComputeCapabilityMinor = 76;

class Library {
 public:
  Library() : handle_(dlopen(kLibrary, RTLD_NOW)) {}
  ~Library() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  [[nodiscard]] bool opened() const { return handle_ != nullptr; }

  // Calls a function of the driver; throws with its name and the driver's reason when it fails.
  template <typename... Parameters>
  void call(const char* name, Parameters... parameters) const {
    const auto function = reinterpret_cast<int (*)(Parameters...)>(dlsym(handle_, name));
    if (function == nullptr) throw std::runtime_error(std::string(kLibrary) + " has no " + name);
    const int result = function(parameters...);
    if (result != kSuccess) throw std::runtime_error(std::string(name) + " failed: " + reason(result));
  }

 private:
  [[nodiscard]] std::string reason(int result) const {
    const char* text = nullptr;
    const auto describe = reinterpret_cast<int (*)(int, const char**)>(dlsym(handle_, "cuGetErrorString"));
    const bool known = describe != nullptr && describe(result, &text) == kSuccess && text != nullptr;
    return known ? text : "error " + std::to_string(result);
  }

  void* handle_;
};

int attribute(const Library& driver, int which, int device) {
  int value = 0;
  driver.call("cuDeviceGetAttribute", &value, which, device);
  return value;
}

DriverGpu read_gpu(const Library& driver, int index) {
  int device = 0;
  driver.call("cuDeviceGet", &device, index);
  std::array<char, 256> name{};
  driver.call("cuDeviceGetName", name.data(), static_cast<int>(name.size()), device);
  std::size_t memory = 0;
  driver.call("cuDeviceTotalMem_v2", &memory, device);
  DriverGpu gpu;
  gpu.name = name.data();
  gpu.compute_capability_major = attribute(driver, kAttributeComputeCapabilityMajor, device);
  gpu.compute_capability_minor = attribute(driver, kAttributeComputeCapabilityMinor, device);
  gpu.total_memory_bytes = memory;
  gpu.multiprocessors = attribute(driver, kAttributeMultiprocessorCount, device);
  return gpu;
}

}  // namespace

CudaDriver read_cuda_driver() {
  CudaDriver found;
  const Library driver;
  if (!driver.opened()) {
    found.error = std::string("no NVIDIA driver (") + kLibrary + " was not found)";
    return found;
  }
  try {
    int version = 0;
    driver.call("cuDriverGetVersion", &version);
    found.cuda_version = version;
    driver.call("cuInit", 0U);
    int count = 0;
    driver.call("cuDeviceGetCount", &count);
    for (int index = 0; index < count; ++index) found.gpus.push_back(read_gpu(driver, index));
    if (count == 0) found.error = "the NVIDIA driver shows no GPU";
  } catch (const std::runtime_error& failure) {
    found.error = failure.what();
  }
  return found;
}

}  // namespace ampctl::worker
