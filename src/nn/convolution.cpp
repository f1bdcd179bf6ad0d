#include "nn/convolution.h"

#include "kernels/conv_sums.h"
#include "kernels/stem_conv.h"
#include "kernels/stem_conv_geometry.h"
#include "nn/init.h"

namespace ampctl::nn {

Conv2d::Conv2d(const Conv2dOptions& options) : options_(options) {
  weight_ = register_parameter("weight", at::empty({options.out_channels, options.in_channels,
                                                    options.kernel_size, options.kernel_size}));
  if (options.bias) bias_ = register_parameter("bias", at::empty({options.out_channels}));
  default_init(weight_, bias_);
}

at::Tensor Conv2d::forward(const at::Tensor& input) {
  return at::conv2d(input, current_weight(), working_bias_(bias_), options_.stride, options_.padding);
}

kernels::Convolved Conv2d::convolve(const at::Tensor& input) {
  if (wraps_forward() || !is_training() || !fused() || bias_.defined()) return {(*this)(input), {}};
  const at::Tensor weight = current_weight();
  const bool is_stem = options_.kernel_size == kernels::kStemKernel &&
                       options_.stride == kernels::kStemStride && options_.padding == kernels::kStemPadding;
  if (is_stem && kernels::has_stem_conv_kernel(input, weight)) return kernels::stem_conv(input, weight);
  return kernels::conv2d_sums(input, weight, {options_.stride, options_.stride},
                              {options_.padding, options_.padding});
}

std::vector<std::pair<at::Tensor, WorkingWeight*>> Conv2d::working_weights() {
  std::vector<std::pair<at::Tensor, WorkingWeight*>> result{{weight_, &working_weight_}};
  if (bias_.defined()) result.emplace_back(bias_, &working_bias_);
  return result;
}

ParameterSlots Conv2d::gradient_slots() {
  ParameterSlots result{{weight_, &working_weight_.gradient_slot()}};
  if (bias_.defined()) result.emplace_back(bias_, &working_bias_.gradient_slot());
  return result;
}

}  // namespace ampctl::nn
