// Failures of cuDNN as LibTorch's errors.
#pragma once

#include <c10/util/Exception.h>
#include <cudnn.h>

namespace ampctl::kernels {

/// Throws c10::Error with the name of the call and cuDNN's words, unless it went well.
inline void check_cudnn(cudnnStatus_t status, const char* call) {
  TORCH_CHECK(status == CUDNN_STATUS_SUCCESS, call, ": ", cudnnGetErrorString(status));
}

}  // namespace ampctl::kernels
