// A small network whose gradients can be worked out in one process as well.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "dist/named_tensors.h"

namespace ampctl::test {

/// 6 features → 16 → 5 classes, and a branch that `forward` uses only when told to.
struct Net {
  explicit Net(uint64_t seed, at::TensorOptions options = at::kDouble);

  [[nodiscard]] at::Tensor forward(const at::Tensor& x, bool with_branch = true) const;
  [[nodiscard]] std::vector<at::Tensor> gradients() const;
  /// Zeroes in place, as gradients that are views of buckets ask for.
  void zero_gradients() const;

  dist::NamedTensors parameters;
};

/// Features [n, 6] and classes [n] of the data set that all ranks share, the same for every call.
struct Samples {
  at::Tensor x;
  at::Tensor y;

  [[nodiscard]] Samples part(int64_t begin, int64_t size) const;
  [[nodiscard]] int64_t size() const { return x.size(0); }
};
Samples make_samples(int64_t count, at::TensorOptions options = at::kDouble);

/// The summed cross-entropy of a batch.
at::Tensor summed_loss(const Net& net, const Samples& samples, bool with_branch = true);

/// Gradients of the mean loss of `samples`, worked out in this process alone.
std::vector<at::Tensor> expected_gradients(uint64_t seed, const Samples& samples, bool with_branch = true);

/// The largest ||a - b|| / ||b|| over the tensors.
double largest_difference(const std::vector<at::Tensor>& actual, const std::vector<at::Tensor>& expected);

}  // namespace ampctl::test
