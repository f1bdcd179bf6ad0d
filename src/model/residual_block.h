// The block of residual networks: https://arxiv.org/abs/1512.03385.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "nn/batch_norm_act.h"
#include "nn/convolution.h"
#include "nn/layer.h"

namespace ampctl::model {

/// The shortcut of a block that changes the shape: a convolution and a batch norm. torch.nn.Sequential, in
/// whose place they may also be called one by one.
struct Downsample {
  std::shared_ptr<nn::Conv2d> conv;
  std::shared_ptr<nn::BatchNorm2d> norm;
  nn::LayerPtr sequential;

  explicit Downsample(const nn::Conv2dOptions& options);
};

/// torchvision's BasicBlock and Bottleneck: convolutions conv1, conv2, ..., each followed by a batch norm
/// bn1, bn2, ..., with ReLU between them; the shortcut is added to the last norm's output, and ReLU follows.
class ResidualBlock : public nn::Layer {
 public:
  /// `downsample` (may be absent) brings the input to the output's shape.
  ResidualBlock(const std::vector<nn::Conv2dOptions>& convolutions, std::optional<Downsample> downsample);

  [[nodiscard]] const at::Tensor& last_norm_weight() const { return norms_.back()->weight(); }

  /// The block for an input that the first convolution and the shortcut read, with an output for the same two
  /// of the next block: where the operators are fused their gradients are never added by autograd. A call of
  /// the layer where it wraps_forward().
  nn::ForkedTensor run(const nn::ForkedTensor& input);

 protected:
  at::Tensor forward(const at::Tensor& input) override { return run_layers({input, input}).first; }

 private:
  nn::ForkedTensor run_layers(const nn::ForkedTensor& input);

  std::shared_ptr<nn::ReLU> relu_;
  std::vector<std::shared_ptr<nn::Conv2d>> convs_;
  std::vector<std::shared_ptr<nn::BatchNorm2d>> norms_;
  std::optional<Downsample> downsample_;
};

}  // namespace ampctl::model
