#include "nn/working_weight.h"

#include <string>

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/StreamGuard.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

namespace ampctl::nn {
namespace {

class WorkingWeightBackward : public torch::autograd::Node {
 public:
  WorkingWeightBackward(at::Tensor parameter, kernels::GradientSlotPtr slot)
      : parameter_(std::move(parameter)), slot_(std::move(slot)) {}

  [[nodiscard]] std::string name() const override { return "WorkingWeightBackward"; }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
    const at::Tensor& grad = grads[0];
    if (!grad.defined()) return {at::Tensor()};
    // Recorded for derivatives of a higher order, which the stock cast has.
    if (at::GradMode::is_enabled()) return {grad.to(parameter_.scalar_type())};
    at::Tensor result = kernels::gradient_memory(slot_, parameter_);
    result.copy_(grad);
    return {std::move(result)};
  }

 private:
  at::Tensor parameter_;
  kernels::GradientSlotPtr slot_;
};

}  // namespace

at::Tensor working_weight(const at::Tensor& parameter, const at::Tensor& copy,
                          const kernels::GradientSlotPtr& slot,
                          const std::optional<c10::Stream>& gradient_stream) {
  if (!at::GradMode::is_enabled() || !parameter.requires_grad()) return copy;
  const c10::OptionalStreamGuard guard(gradient_stream);
  const std::shared_ptr<torch::autograd::Node> node(new WorkingWeightBackward(parameter, slot),
                                                    torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(parameter));
  at::Tensor result = copy.detach();
  torch::autograd::set_history(result, node);
  return result;
}

void WorkingWeight::detach() {
  copy_.reset();
  gradient_stream_.reset();
}

at::Tensor WorkingWeight::operator()(const at::Tensor& parameter) const {
  if (!copy_.defined()) return parameter;
  const auto device = parameter.device().type();
  const bool is_read = at::autocast::is_autocast_enabled(device) &&
                       at::autocast::get_autocast_dtype(device) == copy_.scalar_type();
  return is_read ? working_weight(parameter, copy_, slot_, gradient_stream_) : parameter;
}

}  // namespace ampctl::nn
