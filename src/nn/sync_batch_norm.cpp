#include "nn/sync_batch_norm.h"

#include <tuple>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm_backward_elemt.h>
#include <ATen/ops/batch_norm_backward_reduce.h>
#include <ATen/ops/batch_norm_update_stats.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>

namespace ampctl::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Per channel, in the type that the kernels sum in.
struct JointStatistics {
  at::Tensor mean;
  at::Tensor var;     ///< biased
  at::Tensor invstd;  ///< 1 / sqrt(var + eps)
  at::Tensor count;   ///< 0-dim: values a channel
  at::Tensor unbiased_var;
};

at::ScalarType sum_type(const at::Tensor& input) {
  return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

std::vector<int64_t> dims_but_channels(const at::Tensor& input) {
  std::vector<int64_t> dims{0};
  for (int64_t dim = 2; dim < input.dim(); ++dim) dims.push_back(dim);
  return dims;
}

/// (C) as (1, C, 1, ...), to be combined with (N, C, ...).
at::Tensor along_channels(const at::Tensor& values, const at::Tensor& input) {
  std::vector<int64_t> shape(static_cast<size_t>(input.dim()), 1);
  shape[1] = values.numel();
  return values.view(shape);
}

/// Mean and biased variance of this rank's batch, which is not empty.
std::tuple<at::Tensor, at::Tensor> local_statistics(const at::Tensor& input) {
  if (input.is_cuda()) return at::batch_norm_update_stats(input, {}, {}, /*momentum=*/0.0);
  auto [var, mean] = at::var_mean(input.to(sum_type(input)), dims_but_channels(input), /*unbiased=*/false);
  return {std::move(mean), std::move(var)};
}

/// (sum, sum of squares, count) of this rank's batch, float64 (2C + 1).
at::Tensor local_sums(const at::Tensor& input) {
  const int64_t channels = input.size(1);
  const auto options = input.options().dtype(at::kDouble);
  if (input.numel() == 0) return at::zeros({2 * channels + 1}, options);
  const auto [mean, var] = local_statistics(input);
  at::Tensor sums = at::empty({2 * channels + 1}, options);
  const at::Tensor means = sums.narrow(0, 0, channels);
  means.copy_(mean);
  sums.narrow(0, channels, channels).copy_(var).addcmul_(means, means);
  sums.narrow(0, 2 * channels, 1).fill_(1);
  const int64_t count = input.numel() / channels;
  return sums.mul_(static_cast<double>(count));
}

JointStatistics joint_statistics(const at::Tensor& input, double eps, const SumOverRanks& sum_over_ranks) {
  const int64_t channels = input.size(1);
  at::Tensor sums = local_sums(input);
  sum_over_ranks(sums);
  const at::Tensor count = sums.select(0, 2 * channels);
  const at::Tensor moments = sums.narrow(0, 0, 2 * channels) / count;
  const at::Tensor mean = moments.narrow(0, 0, channels);
  // A constant channel's difference may come out just under zero.
  const at::Tensor var = moments.narrow(0, channels, channels).addcmul(mean, mean, -1).clamp_min_(0);
  const auto dtype = sum_type(input);
  return {mean.to(dtype), var.to(dtype), (var + eps).rsqrt_().to(dtype), count.to(dtype),
          (var * (count / (count - 1).clamp_min_(1))).to(dtype)};
}

void update_running(const at::Tensor& running, const at::Tensor& batch, double momentum) {
  running.mul_(1 - momentum).add_(batch, momentum);
}

/// A function in the autograd graph's own box, which holds values only.
struct HeldSum : torch::CustomClassHolder {
  explicit HeldSum(SumOverRanks function) : sum(std::move(function)) {}
  SumOverRanks sum;
};

struct Gradients {
  at::Tensor input;
  at::Tensor weight;
  at::Tensor bias;
};

struct Saved {
  at::Tensor input;
  at::Tensor weight;
  at::Tensor mean;
  at::Tensor invstd;
  at::Tensor count;
};

/// Sums over ranks of dy and dy (x - mean), as means over the joint batch.
std::pair<at::Tensor, at::Tensor> joint_means(const at::Tensor& sum_dy, const at::Tensor& sum_dy_xmu,
                                              const at::Tensor& count, const SumOverRanks& sum_over_ranks) {
  at::Tensor sums = at::cat({sum_dy, sum_dy_xmu});
  sum_over_ranks(sums);
  sums.div_(count);
  const int64_t channels = sum_dy.numel();
  return {sums.narrow(0, 0, channels), sums.narrow(0, channels, channels)};
}

Gradients gradients_by_kernel(const at::Tensor& grad, const Saved& saved,
                              const SumOverRanks* sum_over_ranks) {
  const at::Tensor dy = grad.contiguous(saved.input.suggest_memory_format());
  auto [sum_dy, sum_dy_xmu, grad_weight, grad_bias] =
      at::batch_norm_backward_reduce(dy, saved.input, saved.mean, saved.invstd, saved.weight,
                                     /*input_g=*/true, /*weight_g=*/true, /*bias_g=*/true);
  Gradients gradients{{}, grad_weight, grad_bias};
  if (sum_over_ranks == nullptr) return gradients;
  const auto [mean_dy, mean_dy_xmu] = joint_means(sum_dy, sum_dy_xmu, saved.count, *sum_over_ranks);
  // The kernel divides by an int32 count; of what is divided already it gets the count 1.
  const at::Tensor one = at::ones({1}, mean_dy.options().dtype(at::kInt));
  gradients.input = at::batch_norm_backward_elemt(dy, saved.input, saved.mean, saved.invstd, saved.weight,
                                                  mean_dy, mean_dy_xmu, one);
  return gradients;
}

/// The same in stock operators, for the CPU and for a batch of none.
Gradients gradients_by_formula(const at::Tensor& grad, const Saved& saved,
                               const SumOverRanks* sum_over_ranks) {
  const at::Tensor dy = grad.to(sum_type(saved.input));
  const at::Tensor xmu = saved.input - along_channels(saved.mean, saved.input);
  const auto dims = dims_but_channels(saved.input);
  const at::Tensor sum_dy = dy.sum(dims);
  const at::Tensor sum_dy_xmu = (dy * xmu).sum(dims);
  Gradients gradients{{}, sum_dy_xmu * saved.invstd, sum_dy};
  if (sum_over_ranks == nullptr) return gradients;
  const auto [mean_dy, mean_dy_xmu] = joint_means(sum_dy, sum_dy_xmu, saved.count, *sum_over_ranks);
  const at::Tensor slope = along_channels(mean_dy_xmu * saved.invstd.square(), saved.input);
  const at::Tensor scale = along_channels(saved.invstd * saved.weight, saved.input);
  const at::Tensor centred = dy - along_channels(mean_dy, saved.input) - xmu * slope;
  gradients.input =
      (centred * scale).to(saved.input.scalar_type()).contiguous(saved.input.suggest_memory_format());
  return gradients;
}

struct Normalize : torch::autograd::Function<Normalize> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const at::Tensor& bias, const JointStatistics& joint, double eps,
                            const SumOverRanks& sum_over_ranks) {
    context->save_for_backward({input, weight, joint.mean, joint.invstd, joint.count});
    context->saved_data["sum"] = c10::IValue::make_capsule(c10::make_intrusive<HeldSum>(sum_over_ranks));
    // Evaluation's kernel: it normalises by statistics that it is given.
    return std::get<0>(at::native_batch_norm(input, weight, bias, joint.mean, joint.var, /*training=*/false,
                                             /*momentum=*/0.0, eps));
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    // The sum over ranks has no derivative: a second one is to fail, not to be wrong.
    const at::NoGradGuard no_grad;
    const variable_list saved_tensors = context->get_saved_variables();
    const Saved saved{saved_tensors[0], saved_tensors[1], saved_tensors[2], saved_tensors[3],
                      saved_tensors[4]};
    const auto held = c10::static_intrusive_pointer_cast<HeldSum>(context->saved_data["sum"].toCapsule());
    const SumOverRanks* sum = context->needs_input_grad(0) ? &held->sum : nullptr;
    const bool has_kernel = saved.input.is_cuda() && saved.input.numel() > 0;
    Gradients gradients =
        has_kernel ? gradients_by_kernel(grads[0], saved, sum) : gradients_by_formula(grads[0], saved, sum);
    return {gradients.input, gradients.weight, gradients.bias, {}, {}, {}};
  }
};

}  // namespace

at::Tensor sync_batch_norm(const at::Tensor& input, const SyncBatchNormInputs& inputs,
                           const SumOverRanks& sum_over_ranks) {
  const at::Tensor x = input.contiguous(input.suggest_memory_format());
  JointStatistics joint;
  {
    const at::NoGradGuard no_grad;
    // Types are chosen here with care; autocast is not to choose others.
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    joint = joint_statistics(x, inputs.eps, sum_over_ranks);
    if (inputs.running_mean.defined()) {
      update_running(inputs.running_mean, joint.mean, inputs.momentum);
      update_running(inputs.running_var, joint.unbiased_var, inputs.momentum);
    }
  }
  return Normalize::apply(x, inputs.weight, inputs.bias, joint, inputs.eps, sum_over_ranks);
}

}  // namespace ampctl::nn
