// Multi-layer perceptron.
#pragma once

#include <cstdint>
#include <vector>

#include "model/input_shape.h"
#include "nn/layer.h"

namespace ampctl::model {

struct MlpOptions {
  std::vector<int64_t> hidden_sizes;  ///< may be empty: a linear classifier
  double dropout = 0.0;               ///< after each hidden layer's ReLU
};

/// Linear layers fc1, fc2, ... with ReLU and dropout between them, over flattened images.
nn::LayerPtr make_mlp(const MlpOptions& options, const InputShape& input, int64_t num_classes);

}  // namespace ampctl::model
