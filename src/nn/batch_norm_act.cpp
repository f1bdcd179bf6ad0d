#include "nn/batch_norm_act.h"

#include <optional>

#include "kernels/batch_norm_act.h"
#include "kernels/batch_norm_pair.h"
#include "kernels/batch_norm_pool.h"

namespace ampctl::nn {
namespace {

bool may_fuse(const Layer& layer) { return layer.fused() && !layer.wraps_forward(); }

}  // namespace

at::Tensor norm_relu(BatchNorm2d& norm, ReLU& relu, const at::Tensor& input) {
  if (may_fuse(relu)) {
    if (const auto inputs = norm.fused_inputs(input)) {
      return kernels::batch_norm_act(input, *inputs, /*relu=*/true);
    }
  }
  return relu(norm(input));
}

ForkedTensor norm_add_relu(BatchNorm2d& norm, ReLU& relu, const at::Tensor& input,
                           const at::Tensor& residual) {
  if (may_fuse(relu) && residual.scalar_type() == input.scalar_type()) {
    if (const auto inputs = norm.fused_inputs(input)) {
      return kernels::batch_norm_add_relu(input, residual, *inputs);
    }
  }
  at::Tensor sum = norm(input);
  sum.add_(residual);
  const at::Tensor output = relu(sum);
  return {output, output};
}

ForkedTensor norms_add_relu(BatchNorm2d& norm, ReLU& relu, const at::Tensor& input,
                            BatchNorm2d& shortcut_norm, const at::Tensor& shortcut_input) {
  if (may_fuse(relu) && shortcut_input.scalar_type() == input.scalar_type()) {
    const auto inputs = norm.fused_inputs(input);
    const auto shortcut_inputs = shortcut_norm.fused_inputs(shortcut_input);
    if (inputs && shortcut_inputs) {
      return kernels::batch_norm_pair_add_relu(input, *inputs, shortcut_input, *shortcut_inputs);
    }
  }
  return norm_add_relu(norm, relu, input, shortcut_norm(shortcut_input));
}

ForkedTensor norm_relu_pool(BatchNorm2d& norm, ReLU& relu, MaxPool2d& pool, const at::Tensor& input) {
  if (may_fuse(relu) && may_fuse(pool) && pool.options() == kernels::kBatchNormPoolWindow) {
    if (const auto inputs = norm.fused_inputs(input)) {
      return kernels::batch_norm_relu_max_pool(input, *inputs);
    }
  }
  const at::Tensor output = pool(relu(norm(input)));
  return {output, output};
}

}  // namespace ampctl::nn
