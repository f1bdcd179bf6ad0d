// Parameters that one call of a fused kernel takes: one group's, of one dtype, with their state. Internal to
// optim/.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "optim/optimizer.h"

namespace ampctl::optim {

/// What has a gradient in this step; lists of equal length, tensors of equal strides at each index.
struct ActiveParams {
  std::vector<at::Tensor> params;
  std::vector<at::Tensor> grads;
  std::vector<std::vector<at::Tensor>> states;  ///< one list a kind of state
};

class ParamBucket {
 public:
  ParamBucket(double weight_decay, size_t state_kinds) : weight_decay_(weight_decay), states_(state_kinds) {}

  /// Adds a parameter with zeros for each kind of state.
  void add(const std::string& name, const at::Tensor& param);

  /// Throws an internal error for sparse gradients, another dtype, and parameters whose memory layout changed
  /// since the state was made.
  [[nodiscard]] ActiveParams active() const;

  [[nodiscard]] double weight_decay() const { return weight_decay_; }
  [[nodiscard]] at::ScalarType dtype() const { return params_.front().scalar_type(); }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] const std::vector<at::Tensor>& state(size_t kind) const { return states_[kind]; }

 private:
  double weight_decay_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> params_;
  std::vector<std::vector<at::Tensor>> states_;
};

/// Fused kernels take tensors of one dtype a call.
std::vector<ParamBucket> make_buckets(const std::vector<ParamGroup>& groups, size_t state_kinds);

/// "kind.parameter" → state, kind by kind, for Optimizer::named_state.
std::vector<std::pair<std::string, at::Tensor>> named_state(const std::vector<ParamBucket>& buckets,
                                                            const std::vector<std::string>& kinds);

}  // namespace ampctl::optim
