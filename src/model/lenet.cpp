#include "model/lenet.h"

#include <string>

#include "base/error.h"
#include "nn/convolution.h"
#include "nn/linear.h"
#include "nn/stateless.h"

namespace ampctl::model {
namespace {

constexpr int64_t kKernel = 5;
constexpr int64_t kConv1Channels = 6;
constexpr int64_t kConv2Channels = 16;
constexpr int64_t kFc1Features = 120;
constexpr int64_t kFc2Features = 84;
constexpr int64_t kSmallestImage = 12;

// conv1 keeps the size, conv2 takes off a border, each pooling halves.
int64_t size_after_pooling(int64_t size) { return (size / 2 - (kKernel - 1)) / 2; }

class LeNet : public nn::Layer {
 public:
  LeNet(const InputShape& input, int64_t num_classes)
      : conv1_(register_module("conv1",
                               std::make_shared<nn::Conv2d>(nn::Conv2dOptions{.in_channels = input.channels,
                                                                              .out_channels = kConv1Channels,
                                                                              .kernel_size = kKernel,
                                                                              .padding = kKernel / 2}))),
        conv2_(register_module(
            "conv2",
            std::make_shared<nn::Conv2d>(nn::Conv2dOptions{
                .in_channels = kConv1Channels, .out_channels = kConv2Channels, .kernel_size = kKernel}))),
        fc1_(register_module(
            "fc1", std::make_shared<nn::Linear>(
                       kConv2Channels * size_after_pooling(input.height) * size_after_pooling(input.width),
                       kFc1Features))),
        fc2_(register_module("fc2", std::make_shared<nn::Linear>(kFc1Features, kFc2Features))),
        fc3_(register_module("fc3", std::make_shared<nn::Linear>(kFc2Features, num_classes))),
        relu_(register_module("relu", std::make_shared<nn::ReLU>())),
        pool_(register_module("pool", std::make_shared<nn::MaxPool2d>())),
        flatten_(register_module("flatten", std::make_shared<nn::Flatten>())) {}

 protected:
  at::Tensor forward(const at::Tensor& input) override {
    at::Tensor x = (*pool_)((*relu_)((*conv1_)(input)));
    x = (*pool_)((*relu_)((*conv2_)(x)));
    x = (*relu_)((*fc1_)((*flatten_)(x)));
    x = (*relu_)((*fc2_)(x));
    return (*fc3_)(x);
  }

 private:
  nn::LayerPtr conv1_;
  nn::LayerPtr conv2_;
  nn::LayerPtr fc1_;
  nn::LayerPtr fc2_;
  nn::LayerPtr fc3_;
  nn::LayerPtr relu_;
  nn::LayerPtr pool_;
  nn::LayerPtr flatten_;
};

}  // namespace

nn::LayerPtr make_lenet(const InputShape& input, int64_t num_classes) {
  if (input.height < kSmallestImage || input.width < kSmallestImage) {
    const std::string smallest = std::to_string(kSmallestImage);
    throw usage_error("model lenet: expected images of at least " + smallest + "x" + smallest +
                      " pixels, found " + std::to_string(input.height) + "x" + std::to_string(input.width) +
                      "; add a resize transform or use model mlp");
  }
  return std::make_shared<LeNet>(input, num_classes);
}

}  // namespace ampctl::model
