// Fully connected layer.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "nn/gradient_slots.h"
#include "nn/layer.h"
#include "nn/working_weight.h"

namespace ampctl::nn {

/// torch.nn.Linear: (..., in_features) to (..., out_features). Parameters: weight (out_features, in_features)
/// and bias (out_features), drawn from the default generator in that order.
class Linear : public Layer, public HasWorkingWeights, public HasGradientSlots {
 public:
  Linear(int64_t in_features, int64_t out_features);

  std::vector<std::pair<at::Tensor, WorkingWeight*>> working_weights() override;
  ParameterSlots gradient_slots() override;

 protected:
  at::Tensor forward(const at::Tensor& input) override;

 private:
  at::Tensor weight_;
  at::Tensor bias_;
  WorkingWeight working_weight_;
  WorkingWeight working_bias_;
};

}  // namespace ampctl::nn
