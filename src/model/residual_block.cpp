#include "model/residual_block.h"

#include <string>

namespace ampctl::model {

ResidualBlock::ResidualBlock(const std::vector<nn::Conv2dOptions>& convolutions,
                             const nn::LayerPtr& downsample)
    : relu_(register_module("relu", std::make_shared<nn::ReLU>())) {
  for (const auto& options : convolutions) {
    const std::string number = std::to_string(convs_.size() + 1);
    convs_.push_back(register_module("conv" + number, std::make_shared<nn::Conv2d>(options)));
    norms_.push_back(register_module("bn" + number, std::make_shared<nn::BatchNorm2d>(options.out_channels)));
  }
  if (downsample) downsample_ = register_module("downsample", downsample);
}

nn::ForkedTensor ResidualBlock::run(const nn::ForkedTensor& input) {
  if (!wraps_forward()) return run_layers(input);
  const at::Tensor output = (*this)(input.first);
  return {output, output};
}

nn::ForkedTensor ResidualBlock::run_layers(const nn::ForkedTensor& input) {
  nn::Convolved x = convs_[0]->convolve(input.first);
  for (size_t i = 1; i < convs_.size(); ++i)
    x = convs_[i]->convolve(nn::norm_relu(*norms_[i - 1], *relu_, x));
  const at::Tensor shortcut = downsample_ ? (*downsample_)(input.second) : input.second;
  return nn::norm_add_relu(*norms_.back(), *relu_, x, shortcut);
}

}  // namespace ampctl::model
