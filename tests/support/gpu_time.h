// How long the device takes for some work, without the host's part.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>

namespace ampctl::test {

/// Median time of one call of `work`, in milliseconds: ten calls are replayed as a CUDA graph, since
/// otherwise the host would be slower than small kernels are.
inline float device_milliseconds(const std::function<void()>& work) {
  constexpr int kRepeats = 9;
  constexpr int kCalls = 10;
  for (int i = 0; i < 3; ++i) work();
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  for (int i = 0; i < kCalls; ++i) work();
  graph.capture_end();
  for (int i = 0; i < 3; ++i) graph.replay();
  std::vector<float> times;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    at::cuda::CUDAEvent begin(cudaEventDefault);
    at::cuda::CUDAEvent end(cudaEventDefault);
    begin.record();
    graph.replay();
    end.record();
    end.synchronize();
    times.push_back(begin.elapsed_time(end) / kCalls);
  }
  std::sort(times.begin(), times.end());
  return times[kRepeats / 2];
}

}  // namespace ampctl::test
