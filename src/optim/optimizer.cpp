#include "optim/optimizer.h"

#include <ATen/core/grad_mode.h>

#include "base/error.h"

namespace ampctl::optim {
namespace {

void check(const std::string& name, const at::Tensor& param) {
  if (!param.is_leaf()) {
    throw Error(ErrorKind::internal, "parameter " + name + " is the result of an operation, not a leaf");
  }
  if (!param.is_non_overlapping_and_dense()) {
    throw Error(ErrorKind::internal,
                "parameter " + name + " has gaps in its memory; optimizers need dense parameters");
  }
}

}  // namespace

Optimizer::Optimizer(std::vector<ParamGroup> groups) : groups_(std::move(groups)) {
  for (const auto& group : groups_) {
    if (group.names.size() != group.params.size()) {
      throw Error(ErrorKind::internal, "a parameter group has " + std::to_string(group.params.size()) +
                                           " parameters but " + std::to_string(group.names.size()) +
                                           " names");
    }
    for (size_t i = 0; i < group.params.size(); ++i) check(group.names[i], group.params[i]);
  }
}

std::vector<at::Tensor> Optimizer::gradients() const {
  std::vector<at::Tensor> result;
  for (const auto& grad : gradients_or_undefined()) {
    if (grad.defined()) result.push_back(grad);
  }
  return result;
}

std::vector<at::Tensor> Optimizer::gradients_or_undefined() const {
  std::vector<at::Tensor> result;
  for (const auto& group : groups_) {
    for (const auto& param : group.params) result.push_back(param.grad());
  }
  return result;
}

std::vector<std::string> Optimizer::parameter_names() const {
  std::vector<std::string> result;
  for (const auto& group : groups_) result.insert(result.end(), group.names.begin(), group.names.end());
  return result;
}

void Optimizer::zero_grad(bool set_to_none) {
  const at::NoGradGuard no_grad;
  for (auto& group : groups_) {
    for (auto& param : group.params) {
      auto& grad = param.mutable_grad();
      if (!grad.defined()) continue;
      if (set_to_none) {
        grad.reset();
      } else {
        grad.detach_();
        grad.zero_();
      }
    }
  }
}

}  // namespace ampctl::optim
