#include "nn/linear.h"

#include "nn/init.h"

namespace ampctl::nn {

Linear::Linear(int64_t in_features, int64_t out_features)
    : weight_(register_parameter("weight", at::empty({out_features, in_features}))),
      bias_(register_parameter("bias", at::empty({out_features}))) {
  default_init(weight_, bias_);
}

at::Tensor Linear::forward(const at::Tensor& input) {
  return at::linear(input, working_weight_(weight_), working_bias_(bias_));
}

std::vector<std::pair<at::Tensor, WorkingWeight*>> Linear::working_weights() {
  return {{weight_, &working_weight_}, {bias_, &working_bias_}};
}

ParameterSlots Linear::gradient_slots() {
  return {{weight_, &working_weight_.gradient_slot()}, {bias_, &working_bias_.gradient_slot()}};
}

}  // namespace ampctl::nn
