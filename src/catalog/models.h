// What is known of each model without building it: its name, its options, its size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ampctl::catalog {

/// One input image, and what the size of a model depends on.
struct ModelShape {
  int64_t channels = 3;
  int64_t height = 224;
  int64_t width = 224;
  int64_t num_classes = 1000;
  std::vector<int64_t> hidden_sizes;  ///< mlp
  bool dropout = false;               ///< mlp
};

struct ModelInfo {
  std::string name;
  std::string text;  ///< one line
  std::vector<std::string>
      options;                 ///< keys of the model section beyond name, num_classes, channels_last, weights
  bool fixed_input = false;    ///< the parameters' shapes depend on the image's size
  int64_t min_input_size = 1;  ///< smallest height and width, pixels
  ModelShape default_shape;    ///< what it was designed for
};

/// In the order of help texts.
const std::vector<ModelInfo>& models();
/// Null for an unknown name.
const ModelInfo* find_model(std::string_view name);
std::vector<std::string> model_names();
/// Names of the models that take this option.
std::vector<std::string> models_taking(std::string_view option);

/// Worked out from the architecture.
struct ModelCost {
  int64_t parameters = 0;     ///< elements
  int64_t buffers = 0;        ///< elements of running statistics (counters left out)
  int64_t activations = 0;    ///< elements a sample that the backward pass needs, the input included
  int64_t indices = 0;        ///< int64 elements a sample kept by max pooling
  int64_t forward_flops = 0;  ///< a sample; 2 a multiply-add of convolutions and linear layers, nothing else
};

/// Throws a usage error for an unknown name and for an input smaller than min_input_size.
ModelCost model_cost(std::string_view name, const ModelShape& shape);

}  // namespace ampctl::catalog
