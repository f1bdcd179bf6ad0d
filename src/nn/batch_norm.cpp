#include "nn/batch_norm.h"

#include <sstream>

#include <ATen/Context.h>

#include "base/error.h"
#include "nn/checkpointing.h"

namespace ampctl::nn {
namespace {

void require_two_values_a_channel(const at::Tensor& input) {
  const int64_t channels = input.size(1);
  if (channels == 0 || input.numel() / channels > 1) return;
  std::ostringstream message;
  message << "batch norm in training: expected more than one value a channel, found an input of shape "
          << input.sizes() << "; use a larger batch, a larger image, or data.drop_last: true";
  throw usage_error(message.str());
}

}  // namespace

BatchNorm2d::BatchNorm2d(int64_t num_features, const BatchNormOptions& options)
    : options_(options),
      weight_(register_parameter("weight", at::ones({num_features}))),
      bias_(register_parameter("bias", at::zeros({num_features}))),
      running_mean_(register_buffer("running_mean", at::zeros({num_features}))),
      running_var_(register_buffer("running_var", at::ones({num_features}))),
      num_batches_tracked_(register_buffer("num_batches_tracked", at::zeros({}, at::kLong))) {}

std::optional<kernels::BatchNormInputs> BatchNorm2d::kernel_inputs(const at::Tensor& input) {
  if (!is_training() || is_synchronised() || !fused() || !input.is_cuda()) return std::nullopt;
  require_two_values_a_channel(input);
  kernels::BatchNormInputs inputs{weight_,
                                  bias_,
                                  running_mean_,
                                  running_var_,
                                  num_batches_tracked_,
                                  kernels::batch_norm_tickets(tickets_, input.device()),
                                  options_.momentum,
                                  options_.eps};
  if (!kernels::has_batch_norm_kernel(input, inputs)) return std::nullopt;
  inputs.weight_slot = weight_slot_;
  inputs.bias_slot = bias_slot_;
  if (is_recomputing()) {
    // The first run of a checkpointed layer has updated the statistics; its second goes without them.
    inputs.running_mean.reset();
    inputs.running_var.reset();
    inputs.num_batches_tracked.reset();
  }
  return inputs;
}

std::optional<kernels::BatchNormInputs> BatchNorm2d::fused_inputs(const kernels::Convolved& input) {
  auto inputs = wraps_forward() ? std::nullopt : kernel_inputs(input.output);
  if (inputs) inputs->sums = input.sums;
  return inputs;
}

at::Tensor BatchNorm2d::forward(const at::Tensor& input) {
  if (const auto inputs = kernel_inputs(input)) {
    return kernels::batch_norm_act(input, *inputs, /*relu=*/false);
  }
  const bool again = is_training() && is_recomputing();
  const at::Tensor running_mean = again ? at::Tensor() : running_mean_;
  const at::Tensor running_var = again ? at::Tensor() : running_var_;
  if (is_training() && !is_synchronised()) require_two_values_a_channel(input);
  if (is_training() && !again) num_batches_tracked_.add_(1);
  if (is_training() && is_synchronised()) {
    return sync_batch_norm(
        input, {weight_, bias_, running_mean, running_var, options_.momentum, options_.eps}, sum_over_ranks_);
  }
  return at::batch_norm(input, weight_, bias_, running_mean, running_var, is_training(), options_.momentum,
                        options_.eps, at::globalContext().userEnabledCuDNN());
}

}  // namespace ampctl::nn
