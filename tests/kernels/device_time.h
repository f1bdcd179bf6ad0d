// How long the device takes for something.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include <ATen/cuda/CUDAEvent.h>

namespace ampctl::test {

/// Median of the device's time for one of 20 calls in a row, in milliseconds.
inline float milliseconds(const std::function<void()>& work) {
  constexpr int kRepeats = 9;
  constexpr int kCalls = 20;
  for (int i = 0; i < kCalls; ++i) work();
  std::vector<float> times;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    at::cuda::CUDAEvent begin(cudaEventDefault);
    at::cuda::CUDAEvent end(cudaEventDefault);
    begin.record();
    for (int i = 0; i < kCalls; ++i) work();
    end.record();
    end.synchronize();
    times.push_back(begin.elapsed_time(end) / kCalls);
  }
  std::sort(times.begin(), times.end());
  return times[kRepeats / 2];
}

}  // namespace ampctl::test
