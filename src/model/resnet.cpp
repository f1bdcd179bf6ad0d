#include "model/resnet.h"

#include <string>
#include <vector>

#include <torch/nn/init.h>

#include "nn/batch_norm.h"
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

class ResidualBlock : public nn::Layer {
 public:
  /// `downsample` (may be null) brings the input to the output's shape.
  ResidualBlock(const std::vector<nn::Conv2dOptions>& convolutions, const nn::LayerPtr& downsample)
      : relu_(register_module("relu", std::make_shared<nn::ReLU>())) {
    for (const auto& options : convolutions) {
      const std::string number = std::to_string(convs_.size() + 1);
      convs_.push_back(register_module("conv" + number, std::make_shared<nn::Conv2d>(options)));
      norms_.push_back(
          register_module("bn" + number, std::make_shared<nn::BatchNorm2d>(options.out_channels)));
    }
    if (downsample) downsample_ = register_module("downsample", downsample);
  }

  [[nodiscard]] const at::Tensor& last_norm_weight() const { return norms_.back()->weight(); }

 protected:
  at::Tensor forward(const at::Tensor& input) override {
    at::Tensor x = input;
    for (size_t i = 0; i < convs_.size(); ++i) {
      if (i > 0) x = (*relu_)(x);
      x = (*norms_[i])((*convs_[i])(x));
    }
    x.add_(downsample_ ? (*downsample_)(input) : input);
    return (*relu_)(x);
  }

 private:
  nn::LayerPtr relu_;
  std::vector<nn::LayerPtr> convs_;
  std::vector<std::shared_ptr<nn::BatchNorm2d>> norms_;
  nn::LayerPtr downsample_;
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
      stages_.push_back(
          register_module("layer" + std::to_string(stage + 1),
                          make_stage(options.kind, channels, width, options.blocks[stage], stride)));
      channels = width * expansion(options.kind);
      width *= 2;
    }
    avgpool_ = register_module("avgpool", std::make_shared<nn::AdaptiveAvgPool2d>());
    fc_ = register_module("fc", std::make_shared<nn::Linear>(channels, num_classes));
    initialise(options.zero_init_residual);
  }

 protected:
  at::Tensor forward(const at::Tensor& input) override {
    at::Tensor x = (*maxpool_)((*relu_)((*bn1_)((*conv1_)(input))));
    for (const auto& stage : stages_) x = (*stage)(x);
    return (*fc_)(at::flatten((*avgpool_)(x), /*start_dim=*/1));
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

  static nn::LayerPtr make_stage(ResidualKind kind, int64_t in_channels, int64_t width, int64_t blocks,
                                 int64_t stride) {
    const int64_t out_channels = width * expansion(kind);
    std::vector<nn::LayerPtr> layers;
    for (int64_t block = 0; block < blocks; ++block) {
      // torchvision makes the shortcut before the block, which fixes the order of random numbers.
      nn::LayerPtr downsample;
      if (stride != 1 || in_channels != out_channels) {
        auto conv = std::make_shared<nn::Conv2d>(conv1x1(in_channels, out_channels, stride));
        downsample = std::make_shared<nn::Sequential>(
            std::vector<nn::LayerPtr>{conv, std::make_shared<nn::BatchNorm2d>(out_channels)});
      }
      layers.push_back(
          std::make_shared<ResidualBlock>(convolutions(kind, in_channels, width, stride), downsample));
      in_channels = out_channels;
      stride = 1;
    }
    return std::make_shared<nn::Sequential>(std::move(layers));
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

  nn::LayerPtr conv1_;
  nn::LayerPtr bn1_;
  nn::LayerPtr relu_;
  nn::LayerPtr maxpool_;
  std::vector<nn::LayerPtr> stages_;
  nn::LayerPtr avgpool_;
  nn::LayerPtr fc_;
};

}  // namespace

nn::LayerPtr make_resnet(const ResNetOptions& options, int64_t num_classes) {
  return std::make_shared<ResNet>(options, num_classes);
}

}  // namespace ampctl::model
