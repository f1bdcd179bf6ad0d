#include "model/resnet.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/init.h>

#include "model/residual_block.h"
#include "nn/batch_norm_act.h"
#include "nn/convolution.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "nn/stateless.h"

namespace ampctl::model {
namespace {

constexpr int64_t kStemChannels = 64;
constexpr int64_t kBottleneckExpansion = 4;

nn::Conv2dOptions conv3x3(int64_t in_channels, int64_t out_channels, int64_t stride = 1) {
  return {.in_channels = in_channels,
          .out_channels = out_channels,
          .kernel_size = 3,
          .stride = stride,
          .padding = 1,
          .bias = false};
}

nn::Conv2dOptions conv1x1(int64_t in_channels, int64_t out_channels, int64_t stride = 1) {
  return {.in_channels = in_channels, .out_channels = out_channels, .stride = stride, .bias = false};
}

using Blocks = std::vector<std::shared_ptr<ResidualBlock>>;

/// Residual blocks one after the other: torch.nn.Sequential, in whose place they may also be called one by
/// one.
struct Stage {
  Blocks blocks;
  nn::LayerPtr sequential;

  [[nodiscard]] nn::ForkedTensor operator()(nn::ForkedTensor x) const {
    if (sequential->wraps_forward()) {
      const at::Tensor output = (*sequential)(x.first);
      return {output, output};
    }
    for (const auto& block : blocks) x = block->run(x);
    return x;
  }
};

class ResNet : public nn::Layer {
 public:
  ResNet(const ResNetOptions& options, int64_t num_classes)
      : conv1_(register_module(
            "conv1", std::make_shared<nn::Conv2d>(nn::Conv2dOptions{.in_channels = options.in_channels,
                                                                    .out_channels = kStemChannels,
                                                                    .kernel_size = 7,
                                                                    .stride = 2,
                                                                    .padding = 3,
                                                                    .bias = false}))),
        bn1_(register_module("bn1", std::make_shared<nn::BatchNorm2d>(kStemChannels))),
        relu_(register_module("relu", std::make_shared<nn::ReLU>())),
        maxpool_(register_module("maxpool", std::make_shared<nn::MaxPool2d>(nn::MaxPool2dOptions{
                                                .kernel_size = 3, .stride = 2, .padding = 1}))) {
    int64_t channels = kStemChannels;
    int64_t width = kStemChannels;
    for (size_t stage = 0; stage < options.blocks.size(); ++stage) {
      const int64_t stride = stage == 0 ? 1 : 2;
      stages_.push_back(make_stage(options.kind, channels, width, options.blocks[stage], stride));
      register_module("layer" + std::to_string(stage + 1), stages_.back().sequential);
      channels = width * expansion(options.kind);
      width *= 2;
    }
    avgpool_ = register_module("avgpool", std::make_shared<nn::AdaptiveAvgPool2d>());
    fc_ = register_module("fc", std::make_shared<nn::Linear>(channels, num_classes));
    initialise(options.zero_init_residual);
  }

 protected:
  at::Tensor forward(const at::Tensor& input) override {
    nn::ForkedTensor x = nn::norm_relu_pool(*bn1_, *relu_, *maxpool_, conv1_->convolve(input));
    for (const auto& stage : stages_) x = stage(x);
    return (*fc_)(at::flatten((*avgpool_)(x.first), /*start_dim=*/1));
  }

 private:
  static int64_t expansion(ResidualKind kind) {
    return kind == ResidualKind::bottleneck ? kBottleneckExpansion : 1;
  }

  static std::vector<nn::Conv2dOptions> convolutions(ResidualKind kind, int64_t in_channels, int64_t width,
                                                     int64_t stride) {
    if (kind == ResidualKind::basic) return {conv3x3(in_channels, width, stride), conv3x3(width, width)};
    return {conv1x1(in_channels, width), conv3x3(width, width, stride),
            conv1x1(width, width * kBottleneckExpansion)};
  }

  static Stage make_stage(ResidualKind kind, int64_t in_channels, int64_t width, int64_t blocks,
                          int64_t stride) {
    const int64_t out_channels = width * expansion(kind);
    Blocks made;
    for (int64_t block = 0; block < blocks; ++block) {
      // torchvision makes the shortcut before the block, which fixes the order of random numbers.
      std::optional<Downsample> downsample;
      if (stride != 1 || in_channels != out_channels) {
        downsample.emplace(conv1x1(in_channels, out_channels, stride));
      }
      made.push_back(
          std::make_shared<ResidualBlock>(convolutions(kind, in_channels, width, stride), downsample));
      in_channels = out_channels;
      stride = 1;
    }
    auto sequential = std::make_shared<nn::Sequential>(std::vector<nn::LayerPtr>(made.begin(), made.end()));
    return {std::move(made), std::move(sequential)};
  }

  void initialise(bool zero_init_residual) const {
    for (const auto& module : modules(/*include_self=*/false)) {
      if (const auto* conv = dynamic_cast<const nn::Conv2d*>(module.get())) {
        torch::nn::init::kaiming_normal_(conv->weight(), /*a=*/0, torch::kFanOut, torch::kReLU);
      } else if (const auto* block = dynamic_cast<const ResidualBlock*>(module.get());
                 block != nullptr && zero_init_residual) {
        torch::nn::init::zeros_(block->last_norm_weight());
      }
    }
  }

  std::shared_ptr<nn::Conv2d> conv1_;
  std::shared_ptr<nn::BatchNorm2d> bn1_;
  std::shared_ptr<nn::ReLU> relu_;
  std::shared_ptr<nn::MaxPool2d> maxpool_;
  std::vector<Stage> stages_;
  nn::LayerPtr avgpool_;
  nn::LayerPtr fc_;
};

}  // namespace

nn::LayerPtr make_resnet(const ResNetOptions& options, int64_t num_classes) {
  return std::make_shared<ResNet>(options, num_classes);
}

}  // namespace ampctl::model
