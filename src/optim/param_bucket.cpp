#include "optim/param_bucket.h"

#include <algorithm>

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include "base/error.h"

namespace ampctl::optim {
namespace {

// The kernels walk parameter, gradient and state in memory order, so that strides must agree.
at::Tensor in_layout_of(const at::Tensor& param, const at::Tensor& grad, const std::string& name) {
  if (grad.layout() != at::kStrided || grad.scalar_type() != param.scalar_type()) {
    throw Error(ErrorKind::internal, "the gradient of " + name + " must be a dense " +
                                         c10::toString(param.scalar_type()) + " tensor, found " +
                                         grad.toString());
  }
  if (grad.strides() == param.strides()) return grad;
  at::Tensor result = at::empty_like(param);
  result.copy_(grad);
  return result;
}

}  // namespace

void ParamBucket::add(const std::string& name, const at::Tensor& param) {
  names_.push_back(name);
  params_.push_back(param);
  copies_.emplace_back();
  for (auto& state : states_) state.push_back(at::zeros_like(param.detach()));
}

void ParamBucket::set_working_copies(const std::vector<WorkingCopy>& copies) {
  for (size_t i = 0; i < params_.size(); ++i) {
    const auto found = std::find_if(copies.begin(), copies.end(), [&](const WorkingCopy& working) {
      return working.first.is_same(params_[i]);
    });
    copies_[i] = found == copies.end() ? at::Tensor() : found->second;
    if (found == copies.end()) continue;
    if (copies_[i].sizes() != params_[i].sizes() || copies_[i].strides() != params_[i].strides()) {
      throw Error(ErrorKind::internal, "the working copy of parameter " + names_[i] +
                                           " has another shape or memory layout than the parameter");
    }
  }
}

void ParamBucket::append_active(kernels::UpdateLists& lists) const {
  for (size_t i = 0; i < params_.size(); ++i) {
    const at::Tensor& grad = params_[i].grad();
    if (!grad.defined()) continue;
    lists.params.push_back(params_[i]);
    lists.grads.push_back(in_layout_of(params_[i], grad, names_[i]));
    lists.copies.push_back(copies_[i]);
    lists.weight_decays.push_back(weight_decay_);
    for (size_t kind = 0; kind < states_.size(); ++kind) {
      if (states_[kind][i].strides() != params_[i].strides()) {
        throw Error(ErrorKind::internal,
                    "the memory layout of parameter " + names_[i] +
                        " changed after the optimizer was made; convert the model first");
      }
      lists.states[kind].push_back(states_[kind][i]);
    }
  }
}

std::vector<ParamBucket> make_buckets(const std::vector<ParamGroup>& groups, size_t state_kinds) {
  std::vector<ParamBucket> buckets;
  for (const auto& group : groups) {
    const auto first = static_cast<std::ptrdiff_t>(buckets.size());
    for (size_t i = 0; i < group.params.size(); ++i) {
      auto bucket = std::find_if(buckets.begin() + first, buckets.end(), [&](const ParamBucket& b) {
        return b.dtype() == group.params[i].scalar_type();
      });
      if (bucket == buckets.end())
        bucket = buckets.insert(bucket, ParamBucket(group.weight_decay, state_kinds));
      bucket->add(group.names[i], group.params[i]);
    }
  }
  return buckets;
}

kernels::UpdateLists active(const std::vector<ParamBucket>& buckets, size_t state_kinds) {
  kernels::UpdateLists lists;
  lists.states.resize(state_kinds);
  for (const auto& bucket : buckets) bucket.append_active(lists);
  return lists;
}

std::vector<std::pair<std::string, at::Tensor>> named_state(const std::vector<ParamBucket>& buckets,
                                                            const std::vector<std::string>& kinds) {
  std::vector<std::pair<std::string, at::Tensor>> result;
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    for (const auto& bucket : buckets) {
      for (size_t i = 0; i < bucket.names().size(); ++i) {
        result.emplace_back(kinds[kind] + "." + bucket.names()[i], bucket.state(kind)[i]);
      }
    }
  }
  return result;
}

}  // namespace ampctl::optim
