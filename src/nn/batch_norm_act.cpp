#include "nn/batch_norm_act.h"

#include <optional>

#include "kernels/batch_norm_act.h"
#include "kernels/batch_norm_pool.h"

namespace ampctl::nn {
namespace {

bool may_fuse(const Layer& layer) { return layer.fused() && !layer.wraps_forward(); }

}  // namespace

at::Tensor norm_relu(BatchNorm2d& norm, ReLU& relu, const Convolved& input) {
  if (may_fuse(relu)) {
    if (const auto inputs = norm.fused_inputs(input)) {
      return kernels::batch_norm_act(input.output, *inputs, /*relu=*/true);
    }
  }
  return relu(norm(input.output));
}

ForkedTensor norm_add_relu(BatchNorm2d& norm, ReLU& relu, const Convolved& input,
                           const at::Tensor& residual) {
  if (may_fuse(relu) && residual.scalar_type() == input.output.scalar_type()) {
    if (const auto inputs = norm.fused_inputs(input)) {
      return kernels::batch_norm_add_relu(input.output, residual, *inputs);
    }
  }
  at::Tensor sum = norm(input.output);
  sum.add_(residual);
  const at::Tensor output = relu(sum);
  return {output, output};
}

ForkedTensor norm_relu_pool(BatchNorm2d& norm, ReLU& relu, MaxPool2d& pool, const Convolved& input) {
  if (may_fuse(relu) && may_fuse(pool) && pool.options() == kernels::kBatchNormPoolWindow) {
    if (const auto inputs = norm.fused_inputs(input)) {
      return kernels::batch_norm_relu_max_pool(input.output, *inputs);
    }
  }
  const at::Tensor output = pool(relu(norm(input.output)));
  return {output, output};
}

}  // namespace ampctl::nn
