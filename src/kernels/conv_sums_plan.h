// cuDNN's execution plans for a convolution that also sums its output over everything but the channels.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include <cudnn.h>

namespace ampctl::kernels {

/// A convolution of one group without dilation and bias; all tensors in channels_last order.
struct ConvSumsProblem {
  cudnnDataType_t dtype;          // of input, weight and output: half or bfloat16
  std::array<int64_t, 4> input;   // N, C, H, W
  std::array<int64_t, 4> weight;  // K, C, R, S
  std::array<int64_t, 4> output;  // N, K, H', W'
  std::array<int64_t, 2> stride;
  std::array<int64_t, 2> padding;

  friend bool operator<(const ConvSumsProblem& a, const ConvSumsProblem& b) {
    const auto all = [](const ConvSumsProblem& p) {
      return std::tie(p.dtype, p.input, p.weight, p.output, p.stride, p.padding);
    };
    return all(a) < all(b);
  }
};

/// Device memory of one run. `sums` holds K sums, `squares` K sums of squares: float32.
struct ConvSumsPointers {
  const void* input;
  const void* weight;
  void* output;
  float* sums;
  float* squares;
  void* workspace;
};

class ConvSumsPlan {
 public:
  /// Up to `most` plans, in the order in which cuDNN's heuristics recommend them, whose workspace has
  /// `most_workspace` bytes or less. Empty where cuDNN has none. Compiles kernels: takes a while.
  static std::vector<ConvSumsPlan> find(cudnnHandle_t handle, const ConvSumsProblem& problem, size_t most,
                                        int64_t most_workspace);

  [[nodiscard]] int64_t workspace_bytes() const { return workspace_bytes_; }

  /// Runs on the handle's stream. Throws c10::Error when cuDNN refuses.
  void run(cudnnHandle_t handle, const ConvSumsPointers& pointers) const;

 private:
  struct Parts;
  ConvSumsPlan(std::shared_ptr<const Parts> parts, int64_t workspace_bytes);

  std::shared_ptr<const Parts> parts_;
  int64_t workspace_bytes_;
};

}  // namespace ampctl::kernels
