#include "nn/init.h"

#include <cmath>

#include <torch/nn/init.h>

namespace ampctl::nn {

void default_init(const at::Tensor& weight, const at::Tensor& bias) {
  torch::nn::init::kaiming_uniform_(weight, /*a=*/std::sqrt(5.0));
  if (!bias.defined()) return;
  const auto fan_in = std::get<0>(torch::nn::init::_calculate_fan_in_and_fan_out(weight));
  const double bound = 1.0 / std::sqrt(static_cast<double>(fan_in));
  torch::nn::init::uniform_(bias, -bound, bound);
}

}  // namespace ampctl::nn
