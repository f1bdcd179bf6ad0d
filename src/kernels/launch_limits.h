// Limits of CUDA that more than one kernel meets. C++17.
#pragma once

namespace ampctl::kernels {

/// Bytes of arguments that a kernel may take since CUDA 12.1, on compute capability 7.0 and later.
constexpr int kMaxKernelArguments = 32764;

}  // namespace ampctl::kernels
