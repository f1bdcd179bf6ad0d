// The table of models: one file a family, one line here.
#pragma once

#include <cstdint>
#include <vector>

#include "config/experiment_config.h"
#include "nn/layer.h"

namespace ampctl::model {

/// What a model must know of its data.
struct InputShape {
  int64_t channels = 3;
  int64_t height = 224;
  int64_t width = 224;
};

/// Builds the model named in the configuration, initialised as torchvision does from the default generator,
/// on the CPU in float32. Input: (N, channels, height, width); output: logits (N, num_classes).
nn::LayerPtr make_model(const config::ModelConfig& config, const InputShape& input, int64_t num_classes);

}  // namespace ampctl::model
