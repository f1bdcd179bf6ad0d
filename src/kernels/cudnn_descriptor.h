// A descriptor of cuDNN's graph API (cudnnBackendDescriptor_t), owned.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include <cudnn.h>

#include "kernels/cudnn_error.h"

namespace ampctl::kernels {

class CudnnDescriptor {
 public:
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t made = nullptr;
    check_cudnn(cudnnBackendCreateDescriptor(type, &made), "cudnnBackendCreateDescriptor");
    descriptor_.reset(made);
  }

  /// `type` says what cuDNN takes the values for.
  template <typename T, size_t kCount>
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       const std::array<T, kCount>& values) {
    check_cudnn(cudnnBackendSetAttribute(get(), name, type, static_cast<int64_t>(kCount), values.data()),
                "cudnnBackendSetAttribute");
    return *this;
  }
  template <typename T>
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, T value) {
    return set(name, type, std::array<T, 1>{value});
  }
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.get());
  }

  /// False when cuDNN has nothing for what was described.
  [[nodiscard]] bool finalize() const { return cudnnBackendFinalize(get()) == CUDNN_STATUS_SUCCESS; }

  [[nodiscard]] cudnnBackendDescriptor_t get() const { return descriptor_.get(); }

 private:
  struct Destroy {
    void operator()(void* descriptor) const noexcept { cudnnBackendDestroyDescriptor(descriptor); }
  };
  std::unique_ptr<void, Destroy> descriptor_;
};

}  // namespace ampctl::kernels
