#include "nn/linear.h"

#include "nn/init.h"

namespace ampctl::nn {

Linear::Linear(int64_t in_features, int64_t out_features)
    : weight_(register_parameter("weight", at::empty({out_features, in_features}))),
      bias_(register_parameter("bias", at::empty({out_features}))) {
  default_init(weight_, bias_);
}

at::Tensor Linear::forward(const at::Tensor& input) { return at::linear(input, weight_, bias_); }

}  // namespace ampctl::nn
