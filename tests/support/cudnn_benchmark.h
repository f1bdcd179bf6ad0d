// cuDNN's benchmark mode, in which algorithms are chosen by measuring.
#pragma once

#include <ATen/Context.h>

namespace ampctl::test {

/// On while this exists, then off as by default.
class CudnnBenchmark {
 public:
  CudnnBenchmark() { at::globalContext().setBenchmarkCuDNN(true); }
  ~CudnnBenchmark() { at::globalContext().setBenchmarkCuDNN(false); }
  CudnnBenchmark(const CudnnBenchmark&) = delete;
  CudnnBenchmark& operator=(const CudnnBenchmark&) = delete;
};

}  // namespace ampctl::test
