#include <cmath>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/maximum.h>

#include "base/error.h"
#include "optim/optimizer.h"
#include "optim/param_bucket.h"

namespace ampctl::optim {
namespace {

enum State : size_t { kExpAvg, kExpAvgSq, kMaxExpAvgSq };

std::vector<std::string> state_kinds(const AdamOptions& options) {
  std::vector<std::string> kinds{"exp_avg", "exp_avg_sq"};
  if (options.amsgrad) kinds.emplace_back("max_exp_avg_sq");
  return kinds;
}

class Adam : public Optimizer {
 public:
  Adam(std::vector<ParamGroup> groups, const AdamOptions& options)
      : Optimizer(std::move(groups)),
        options_(options),
        buckets_(make_buckets(groups_, state_kinds(options).size())) {}

  [[nodiscard]] std::vector<std::pair<std::string, at::Tensor>> named_state() const override {
    return optim::named_state(buckets_, state_kinds(options_));
  }
  void set_working_copies(const std::vector<WorkingCopy>& copies) override {
    for (auto& bucket : buckets_) bucket.set_working_copies(copies);
  }

 protected:
  [[nodiscard]] kernels::UpdateLists active_lists() const {
    return active(buckets_, state_kinds(options_).size());
  }

  AdamOptions options_;
  std::vector<ParamBucket> buckets_;
};

class FusedAdam : public Adam {
 public:
  using Adam::Adam;

  [[nodiscard]] bool is_fused() const override { return true; }

  void step(const StepInputs& inputs) override { kernels::adam_update_(active_lists(), options_, inputs); }
};

class ReferenceAdam : public Adam {
 public:
  using Adam::Adam;

  [[nodiscard]] bool is_fused() const override { return false; }

  void step(const StepInputs& inputs) override {
    const at::NoGradGuard no_grad;
    if (inputs.found_inf.defined() && inputs.found_inf.item<double>() != 0.0) return;
    const auto lr = inputs.lr.item<double>();
    const auto steps = inputs.step.item<double>();
    const kernels::UpdateLists lists = active_lists();
    for (size_t i = 0; i < lists.params.size(); ++i) {
      at::Tensor grad = lists.grads[i];
      if (inputs.grad_scale.defined()) grad = grad.div(inputs.grad_scale);
      update(lists, i, grad, lr, steps);
      if (lists.copies[i].defined()) lists.copies[i].copy_(lists.params[i]);
    }
  }

 private:
  void update(const kernels::UpdateLists& lists, size_t i, at::Tensor grad, double lr, double steps) const {
    const double weight_decay = lists.weight_decays[i];
    const at::Tensor& param = lists.params[i];
    const at::Tensor& exp_avg = lists.states[kExpAvg][i];
    const at::Tensor& exp_avg_sq = lists.states[kExpAvgSq][i];
    if (weight_decay != 0.0) {
      if (options_.decoupled_weight_decay) {
        param.mul_(1.0 - lr * weight_decay);
      } else {
        grad = grad.add(param, weight_decay);
      }
    }
    exp_avg.lerp_(grad, 1.0 - options_.beta1);
    exp_avg_sq.mul_(options_.beta2).addcmul_(grad, grad, 1.0 - options_.beta2);
    at::Tensor second_moment = exp_avg_sq;
    if (options_.amsgrad) {
      second_moment = lists.states[kMaxExpAvgSq][i];
      second_moment.copy_(at::maximum(second_moment, exp_avg_sq));
    }
    const double correction1 = 1.0 - std::pow(options_.beta1, steps);
    const double correction2 = 1.0 - std::pow(options_.beta2, steps);
    const at::Tensor denominator = second_moment.sqrt().div_(std::sqrt(correction2)).add_(options_.eps);
    param.addcdiv_(exp_avg, denominator, -lr / correction1);
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_adam(std::vector<ParamGroup> groups, const AdamOptions& options, bool fused) {
  for (const double beta : {options.beta1, options.beta2}) {
    if (!(beta >= 0.0 && beta < 1.0)) {
      throw usage_error("optimizer.betas must be at least 0 and less than 1, got " + std::to_string(beta));
    }
  }
  if (!(options.eps >= 0.0)) {
    throw usage_error("optimizer.eps must be 0 or more, got " + std::to_string(options.eps));
  }
  if (fused) return std::make_unique<FusedAdam>(std::move(groups), options);
  return std::make_unique<ReferenceAdam>(std::move(groups), options);
}

}  // namespace ampctl::optim
