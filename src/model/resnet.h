// Residual networks, version 1.5.
#pragma once

#include <array>
#include <cstdint>

#include "nn/layer.h"

namespace ampctl::model {

/// Two 3x3 convolutions, or 1x1, 3x3 and 1x1 with four times the channels at the end.
enum class ResidualKind { basic, bottleneck };

struct ResNetOptions {
  ResidualKind kind = ResidualKind::basic;
  std::array<int64_t, 4> blocks{};  ///< residual blocks in layer1 to layer4
  int64_t in_channels = 3;
  bool zero_init_residual = false;  ///< each block's last norm starts at 0 (https://arxiv.org/abs/1706.02677)
};

/// torchvision.models.resnet: https://arxiv.org/abs/1512.03385 with the stride on the 3x3 convolution (v1.5),
/// torchvision's names and initialisation, the random numbers drawn in torchvision's order.
nn::LayerPtr make_resnet(const ResNetOptions& options, int64_t num_classes);

}  // namespace ampctl::model
