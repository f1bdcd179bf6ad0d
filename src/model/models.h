// The table of models: one file a family, one line here.
#pragma once

#include <string>
#include <vector>

#include "config/experiment_config.h"
#include "model/input_shape.h"
#include "nn/layer.h"

namespace ampctl::model {

/// Names that make_model knows, in the order of the table; the same as the catalog's.
std::vector<std::string> model_names();

/// Builds the model named in the configuration, initialised as torchvision does from the default generator,
/// on the CPU in float32. Input: (N, channels, height, width); output: logits (N, num_classes). Pretrained
/// weights (config.weights) are the caller's to load. Throws a usage error for an unknown name, naming the
/// nearest, for fewer than one class or channel, and for images too small for the model.
nn::LayerPtr make_model(const config::ModelConfig& config, const InputShape& input, int64_t num_classes);

}  // namespace ampctl::model
