// Tensors by name, in a model's own order.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace ampctl::dist {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

}  // namespace ampctl::dist
