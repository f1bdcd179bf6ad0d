// Layers run one after the other.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nn/layer.h"

namespace ampctl::nn {

/// torch.nn.Sequential: children are named "0", "1", ...
class Sequential : public Layer {
 public:
  explicit Sequential(std::vector<LayerPtr> layers) : layers_(std::move(layers)) {
    for (size_t i = 0; i < layers_.size(); ++i) register_module(std::to_string(i), layers_[i]);
  }

 protected:
  at::Tensor forward(const at::Tensor& input) override {
    at::Tensor output = input;
    for (const auto& layer : layers_) output = (*layer)(output);
    return output;
  }

 private:
  std::vector<LayerPtr> layers_;
};

}  // namespace ampctl::nn
