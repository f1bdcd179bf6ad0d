// The time that work takes on the GPU, for [benchmark] tests.
#pragma once

#include <algorithm>
#include <array>
#include <functional>

#include <ATen/cuda/CUDAEvent.h>

namespace ampctl::test {

/// Median of the device's time for one of 20 calls in a row, in milliseconds.
inline float milliseconds(const std::function<void()>& work) {
  constexpr int kRepeats = 9;
  constexpr int kCalls = 20;
  for (int i = 0; i < kCalls; ++i) work();
  std::array<float, kRepeats> times{};
  for (float& time : times) {
    at::cuda::CUDAEvent begin(cudaEventDefault);
    at::cuda::CUDAEvent end(cudaEventDefault);
    begin.record();
    for (int i = 0; i < kCalls; ++i) work();
    end.record();
    end.synchronize();
    time = begin.elapsed_time(end) / kCalls;
  }
  std::sort(times.begin(), times.end());
  return times[kRepeats / 2];
}

}  // namespace ampctl::test
