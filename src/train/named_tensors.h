// Tensors by name, in an order that counts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace ampctl::train {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

}  // namespace ampctl::train
