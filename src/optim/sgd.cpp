#include <optional>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/maximum.h>

#include "base/error.h"
#include "optim/optimizer.h"
#include "optim/param_bucket.h"

namespace ampctl::optim {
namespace {

std::optional<at::Tensor> optional(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
}

at::Tensor skip_also_if(const at::Tensor& condition, const at::Tensor& found_inf) {
  const at::Tensor skip = condition.to(at::kFloat);
  return found_inf.defined() ? at::maximum(skip, found_inf) : skip;
}

class Sgd : public Optimizer {
 public:
  Sgd(std::vector<ParamGroup> groups, const SgdOptions& options)
      : Optimizer(std::move(groups)),
        options_(options),
        buckets_(make_buckets(groups_, options.momentum == 0.0 ? 0 : 1)) {}

  [[nodiscard]] std::vector<std::pair<std::string, at::Tensor>> named_state() const override {
    if (options_.momentum == 0.0) return {};
    return optim::named_state(buckets_, {"momentum_buffer"});
  }

 protected:
  SgdOptions options_;
  std::vector<ParamBucket> buckets_;
};

class FusedSgd : public Sgd {
 public:
  using Sgd::Sgd;

  [[nodiscard]] bool is_fused() const override { return true; }

  void step(const StepInputs& inputs) override {
    const at::NoGradGuard no_grad;
    const bool damped = options_.momentum != 0.0 && options_.dampening != 0.0;
    at::Tensor skip_first;
    at::Tensor skip_later = inputs.found_inf;
    if (damped) {
      // The host does not know which update is the first: both forms are enqueued, and the device skips one.
      // Without dampening a buffer of zeros gives the first step's value by itself.
      skip_first = skip_also_if(inputs.step.ne(1.0), inputs.found_inf);
      skip_later = skip_also_if(inputs.step.eq(1.0), inputs.found_inf);
    }
    for (const auto& bucket : buckets_) {
      const ActiveParams active = bucket.active();
      if (active.params.empty()) continue;
      if (damped) run(bucket, active, inputs, /*is_first_step=*/true, skip_first);
      run(bucket, active, inputs, /*is_first_step=*/false, skip_later);
    }
  }

 private:
  void run(const ParamBucket& bucket, const ActiveParams& active, const StepInputs& inputs,
           bool is_first_step, const at::Tensor& skip) const {
    const at::TensorList buffers =
        active.states.empty() ? at::TensorList() : at::TensorList(active.states[0]);
    at::_fused_sgd_(active.params, active.grads, buffers, bucket.weight_decay(), options_.momentum, inputs.lr,
                    options_.dampening, options_.nesterov, /*maximize=*/false, is_first_step,
                    optional(inputs.grad_scale), optional(skip));
  }
};

class ReferenceSgd : public Sgd {
 public:
  using Sgd::Sgd;

  [[nodiscard]] bool is_fused() const override { return false; }

  void step(const StepInputs& inputs) override {
    const at::NoGradGuard no_grad;
    if (inputs.found_inf.defined() && inputs.found_inf.item<double>() != 0.0) return;
    const auto lr = inputs.lr.item<double>();
    const bool first = inputs.step.item<double>() == 1.0;
    for (const auto& bucket : buckets_) {
      const ActiveParams active = bucket.active();
      for (size_t i = 0; i < active.params.size(); ++i) {
        at::Tensor grad = active.grads[i];
        if (inputs.grad_scale.defined()) grad = grad.div(inputs.grad_scale);
        if (bucket.weight_decay() != 0.0) grad = grad.add(active.params[i], bucket.weight_decay());
        if (options_.momentum != 0.0) grad = with_momentum(grad, active.states[0][i], first);
        active.params[i].sub_(grad, lr);
      }
    }
  }

 private:
  [[nodiscard]] at::Tensor with_momentum(const at::Tensor& grad, const at::Tensor& buffer, bool first) const {
    if (first) {
      buffer.copy_(grad);
    } else {
      buffer.mul_(options_.momentum).add_(grad, 1.0 - options_.dampening);
    }
    return options_.nesterov ? grad.add(buffer, options_.momentum) : buffer;
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(std::vector<ParamGroup> groups, const SgdOptions& options, bool fused) {
  if (!(options.momentum >= 0.0)) {
    throw usage_error("optimizer.momentum must be 0 or more, got " + std::to_string(options.momentum));
  }
  if (options.nesterov && (options.momentum == 0.0 || options.dampening != 0.0)) {
    throw usage_error("Nesterov momentum requires a momentum and zero dampening");
  }
  if (fused) return std::make_unique<FusedSgd>(std::move(groups), options);
  return std::make_unique<ReferenceSgd>(std::move(groups), options);
}

}  // namespace ampctl::optim
