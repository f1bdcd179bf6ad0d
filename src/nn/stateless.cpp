#include "nn/stateless.h"

#include <string>

#include "base/error.h"
#include "kernels/global_avg_pool.h"
#include "kernels/max_pool.h"

namespace ampctl::nn {

at::Tensor ReLU::forward(const at::Tensor& input) {
  at::Tensor output = input;
  return at::relu_(output);
}

at::Tensor MaxPool2d::forward(const at::Tensor& input) {
  if (fused()) return kernels::max_pool2d(input, options_);
  return at::max_pool2d(input, options_.kernel_size, options_.stride, options_.padding);
}

at::Tensor AdaptiveAvgPool2d::forward(const at::Tensor& input) {
  if (output_size_ == 1 && input.dim() == 4) return kernels::global_avg_pool2d(input);
  return at::adaptive_avg_pool2d(input, {output_size_, output_size_});
}

at::Tensor Flatten::forward(const at::Tensor& input) { return at::flatten(input, /*start_dim=*/1); }

Dropout::Dropout(double p) : p_(p) {
  // Negated, so that NaN is refused too.
  if (!(p >= 0.0 && p <= 1.0)) {
    throw usage_error("dropout: expected a probability from 0 to 1, found " + std::to_string(p));
  }
}

at::Tensor Dropout::forward(const at::Tensor& input) { return at::dropout(input, p_, is_training()); }

at::Tensor Identity::forward(const at::Tensor& input) { return input; }

}  // namespace ampctl::nn
