// Work of a test as a CUDA graph.
#pragma once

#include <functional>

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>

namespace ampctl::test {

/// What `work` enqueues, captured and not run yet. While this exists a stream of its own is the current one.
class Captured {
 public:
  explicit Captured(const std::function<void()>& work) {
    graph_.capture_begin();
    work();
    graph_.capture_end();
  }
  ~Captured() = default;
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

  void replay() { graph_.replay(); }

 private:
  c10::cuda::CUDAStreamGuard stream_{c10::cuda::getStreamFromPool()};
  at::cuda::CUDAGraph graph_;
};

}  // namespace ampctl::test
