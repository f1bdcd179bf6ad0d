#include "nn/convolution.h"

#include "nn/init.h"

namespace ampctl::nn {

Conv2d::Conv2d(const Conv2dOptions& options) : options_(options) {
  weight_ = register_parameter("weight", at::empty({options.out_channels, options.in_channels,
                                                    options.kernel_size, options.kernel_size}));
  if (options.bias) bias_ = register_parameter("bias", at::empty({options.out_channels}));
  default_init(weight_, bias_);
}

at::Tensor Conv2d::forward(const at::Tensor& input) {
  return at::conv2d(input, weight_, bias_, options_.stride, options_.padding);
}

}  // namespace ampctl::nn
