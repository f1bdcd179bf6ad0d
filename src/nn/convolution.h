// 2-dimensional convolution.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/convolved.h"
#include "nn/gradient_slots.h"
#include "nn/layer.h"
#include "nn/working_weight.h"

namespace ampctl::nn {

struct Conv2dOptions {
  int64_t in_channels = 0;
  int64_t out_channels = 0;
  int64_t kernel_size = 1;  ///< square
  int64_t stride = 1;
  int64_t padding = 0;
  bool bias = true;
};

/// torch.nn.Conv2d: (N, in_channels, H, W) to (N, out_channels, H', W'), H' = (H + 2 padding - kernel_size) /
/// stride + 1 rounded down. Parameters: weight (out_channels, in_channels, kernel_size, kernel_size) and bias
/// (out_channels), drawn from the default generator in that order.
class Conv2d : public Layer, public HasWorkingWeights, public HasGradientSlots {
 public:
  explicit Conv2d(const Conv2dOptions& options);

  [[nodiscard]] const at::Tensor& weight() const { return weight_; }
  /// The weight that a forward pass starting now computes with: the 16-bit working copy under autocast, where
  /// there is one.
  [[nodiscard]] at::Tensor current_weight() const { return working_weight_(weight_); }
  std::vector<std::pair<at::Tensor, WorkingWeight*>> working_weights() override;
  ParameterSlots gradient_slots() override;

  /// What calling the layer gives, and in training, where fused(), the sums that a batch norm behind it can
  /// use (kernels::conv2d_sums, kernels::stem_conv). A call of the layer where it wraps_forward().
  kernels::Convolved convolve(const at::Tensor& input);

 protected:
  at::Tensor forward(const at::Tensor& input) override;

 private:
  Conv2dOptions options_;
  at::Tensor weight_;
  at::Tensor bias_;
  WorkingWeight working_weight_;
  WorkingWeight working_bias_;
};

}  // namespace ampctl::nn
