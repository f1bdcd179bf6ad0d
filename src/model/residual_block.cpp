#include "model/residual_block.h"

#include <string>
#include <utility>

#include "nn/sequential.h"

namespace ampctl::model {

Downsample::Downsample(const nn::Conv2dOptions& options)
    : conv(std::make_shared<nn::Conv2d>(options)),
      norm(std::make_shared<nn::BatchNorm2d>(options.out_channels)),
      sequential(std::make_shared<nn::Sequential>(std::vector<nn::LayerPtr>{conv, norm})) {}

ResidualBlock::ResidualBlock(const std::vector<nn::Conv2dOptions>& convolutions,
                             std::optional<Downsample> downsample)
    : relu_(register_module("relu", std::make_shared<nn::ReLU>())), downsample_(std::move(downsample)) {
  for (const auto& options : convolutions) {
    const std::string number = std::to_string(convs_.size() + 1);
    convs_.push_back(register_module("conv" + number, std::make_shared<nn::Conv2d>(options)));
    norms_.push_back(register_module("bn" + number, std::make_shared<nn::BatchNorm2d>(options.out_channels)));
  }
  if (downsample_) register_module("downsample", downsample_->sequential);
}

nn::ForkedTensor ResidualBlock::run(const nn::ForkedTensor& input) {
  if (!wraps_forward()) return run_layers(input);
  const at::Tensor output = (*this)(input.first);
  return {output, output};
}

nn::ForkedTensor ResidualBlock::run_layers(const nn::ForkedTensor& input) {
  nn::Convolved x = convs_[0]->convolve(input.first);
  for (size_t i = 1; i < convs_.size(); ++i) {
    x = convs_[i]->convolve(nn::norm_relu(*norms_[i - 1], *relu_, x));
  }
  if (!downsample_) return nn::norm_add_relu(*norms_.back(), *relu_, x, input.second);
  const auto& [conv, norm, sequential] = *downsample_;
  if (sequential->wraps_forward()) {
    return nn::norm_add_relu(*norms_.back(), *relu_, x, (*sequential)(input.second));
  }
  return nn::norms_add_relu(*norms_.back(), *relu_, x, *norm, conv->convolve(input.second));
}

}  // namespace ampctl::model
