// One group's parameters of one dtype with their state and working copies. Internal to optim/.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "optim/optimizer.h"

namespace ampctl::optim {

class ParamBucket {
 public:
  ParamBucket(double weight_decay, size_t state_kinds) : weight_decay_(weight_decay), states_(state_kinds) {}

  /// Adds a parameter with zeros for each kind of state.
  void add(const std::string& name, const at::Tensor& param);

  /// See Optimizer::set_working_copies.
  void set_working_copies(const std::vector<WorkingCopy>& copies);

  /// Appends what has a gradient in this step. Throws an internal error for sparse gradients, another dtype,
  /// and parameters whose memory layout changed since the state was made.
  void append_active(kernels::UpdateLists& lists) const;

  [[nodiscard]] at::ScalarType dtype() const { return params_.front().scalar_type(); }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] const std::vector<at::Tensor>& state(size_t kind) const { return states_[kind]; }

 private:
  double weight_decay_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> params_;
  std::vector<std::vector<at::Tensor>> states_;
  std::vector<at::Tensor> copies_;  // undefined where there is none
};

std::vector<ParamBucket> make_buckets(const std::vector<ParamGroup>& groups, size_t state_kinds);

/// Everything of all buckets that has a gradient in this step.
kernels::UpdateLists active(const std::vector<ParamBucket>& buckets, size_t state_kinds);

/// "kind.parameter" → state, kind by kind, for Optimizer::named_state.
std::vector<std::pair<std::string, at::Tensor>> named_state(const std::vector<ParamBucket>& buckets,
                                                            const std::vector<std::string>& kinds);

}  // namespace ampctl::optim
