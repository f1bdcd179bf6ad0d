// Where the gradients of a whole model's parameters are wanted.
#pragma once

#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/gradient_slot.h"
#include "nn/layer.h"

namespace ampctl::nn {

/// Parameters, each with where its layer keeps its slot.
using ParameterSlots = std::vector<std::pair<at::Tensor, kernels::GradientSlotPtr*>>;

/// A layer whose operators can write gradients of its parameters where a slot says.
class HasGradientSlots {
 public:
  virtual ~HasGradientSlots() = default;
  /// Of the defined parameters.
  virtual ParameterSlots gradient_slots() = 0;
};

class GradientSlots {
 public:
  /// The layers of `model` that have slots: convolutions and linear layers, which use them where they compute
  /// with working copies (working_weight.h), and batch norms, which use them where they run on kernels. The
  /// model outlives this.
  explicit GradientSlots(Layer& model);
  /// Gradients then come where they come.
  ~GradientSlots();
  GradientSlots(const GradientSlots&) = delete;
  GradientSlots& operator=(const GradientSlots&) = delete;

  /// (parameter, place): from now on the first gradient of each parameter after zero_grad is written into its
  /// place, a tensor of its dtype, shape and strides (the Reducer's bucket view, a part of a flat tensor),
  /// and autograd's accumulation takes it over without a copy; parameters not named have none. Throws an
  /// internal error for a place of another dtype, device or layout. An empty list ends it.
  void set(const std::vector<std::pair<at::Tensor, at::Tensor>>& places);

 private:
  void collect(torch::nn::Module& module);

  ParameterSlots slots_;
};

}  // namespace ampctl::nn
