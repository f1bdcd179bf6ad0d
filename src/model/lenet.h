// LeNet-5 for small images.
#pragma once

#include <cstdint>

#include "model/input_shape.h"
#include "nn/layer.h"

namespace ampctl::model {

/// LeCun et al., "Gradient-based learning applied to document recognition", 1998, with ReLU and max pooling
/// as it is taught today: conv1 6@5x5 (padding 2), pool, conv2 16@5x5, pool, fc1 120, fc2 84, fc3. Throws a
/// usage error for images under 12x12 pixels, of which the second pooling leaves nothing.
nn::LayerPtr make_lenet(const InputShape& input, int64_t num_classes);

}  // namespace ampctl::model
