#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "optim/optimizer.h"
#include "optim/param_bucket.h"

namespace ampctl::optim {
namespace {

class Sgd : public Optimizer {
 public:
  Sgd(std::vector<ParamGroup> groups, const SgdOptions& options)
      : Optimizer(std::move(groups)), options_(options), buckets_(make_buckets(groups_, state_kinds())) {}

  [[nodiscard]] std::vector<std::pair<std::string, at::Tensor>> named_state() const override {
    if (options_.momentum == 0.0) return {};
    return optim::named_state(buckets_, {"momentum_buffer"});
  }
  void set_working_copies(const std::vector<WorkingCopy>& copies) override {
    for (auto& bucket : buckets_) bucket.set_working_copies(copies);
  }

 protected:
  [[nodiscard]] size_t state_kinds() const { return options_.momentum == 0.0 ? 0 : 1; }

  SgdOptions options_;
  std::vector<ParamBucket> buckets_;
};

class FusedSgd : public Sgd {
 public:
  using Sgd::Sgd;

  [[nodiscard]] bool is_fused() const override { return true; }

  void step(const StepInputs& inputs) override {
    kernels::sgd_update_(active(buckets_, state_kinds()), options_, inputs);
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
    const kernels::UpdateLists lists = active(buckets_, state_kinds());
    for (size_t i = 0; i < lists.params.size(); ++i) {
      const at::Tensor& param = lists.params[i];
      at::Tensor grad = lists.grads[i];
      if (inputs.grad_scale.defined()) grad = grad.div(inputs.grad_scale);
      if (lists.weight_decays[i] != 0.0) grad = grad.add(param, lists.weight_decays[i]);
      if (options_.momentum != 0.0) grad = with_momentum(grad, lists.states[0][i], first);
      param.sub_(grad, lr);
      if (lists.copies[i].defined()) lists.copies[i].copy_(param);
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
