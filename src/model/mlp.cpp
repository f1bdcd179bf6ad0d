#include "model/mlp.h"

#include <string>

#include "base/error.h"
#include "nn/linear.h"
#include "nn/stateless.h"

namespace ampctl::model {
namespace {

class Mlp : public nn::Layer {
 public:
  Mlp(const MlpOptions& options, const InputShape& input, int64_t num_classes)
      : flatten_(register_module("flatten", std::make_shared<nn::Flatten>())),
        relu_(register_module("relu", std::make_shared<nn::ReLU>())),
        dropout_(register_module("dropout", std::make_shared<nn::Dropout>(options.dropout))) {
    int64_t features = input.channels * input.height * input.width;
    for (const int64_t size : options.hidden_sizes) {
      if (size < 1) {
        throw usage_error("model.hidden_sizes: expected sizes of at least 1, found " + std::to_string(size));
      }
      hidden_.push_back(add_linear(features, size));
      features = size;
    }
    output_ = add_linear(features, num_classes);
  }

 protected:
  at::Tensor forward(const at::Tensor& input) override {
    at::Tensor x = (*flatten_)(input);
    for (const auto& linear : hidden_) x = (*dropout_)((*relu_)((*linear)(x)));
    return (*output_)(x);
  }

 private:
  nn::LayerPtr add_linear(int64_t in_features, int64_t out_features) {
    return register_module("fc" + std::to_string(hidden_.size() + 1),
                           std::make_shared<nn::Linear>(in_features, out_features));
  }

  nn::LayerPtr flatten_;
  nn::LayerPtr relu_;
  nn::LayerPtr dropout_;
  std::vector<nn::LayerPtr> hidden_;
  nn::LayerPtr output_;
};

}  // namespace

nn::LayerPtr make_mlp(const MlpOptions& options, const InputShape& input, int64_t num_classes) {
  return std::make_shared<Mlp>(options, input, num_classes);
}

}  // namespace ampctl::model
