// How the updates' operators take what UpdateLists and UpdateInputs hold. Internal to kernels/.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include "kernels/param_update.h"

namespace ampctl::kernels {

/// params, grads, states kind by kind in one list, copies, weight_decays, lr, step, grad_scale, found_inf,
/// then the fields of SgdOptions or AdamOptions.
using SgdUpdateOp = void(at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::ArrayRef<double>,
                         const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                         const std::optional<at::Tensor>&, double, double, bool);
using AdamUpdateOp = void(at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                          at::ArrayRef<double>, const at::Tensor&, const at::Tensor&,
                          const std::optional<at::Tensor>&, const std::optional<at::Tensor>&, double, double,
                          double, bool, bool);

inline UpdateLists update_lists(at::TensorList params, at::TensorList grads, at::TensorList states,
                                at::TensorList copies, at::ArrayRef<double> weight_decays) {
  UpdateLists lists{params.vec(), grads.vec(), {}, copies.vec(), weight_decays.vec()};
  for (size_t begin = 0; begin < states.size(); begin += params.size()) {
    lists.states.push_back(states.slice(begin, params.size()).vec());
  }
  return lists;
}

inline UpdateInputs update_inputs(const at::Tensor& lr, const at::Tensor& step,
                                  const std::optional<at::Tensor>& grad_scale,
                                  const std::optional<at::Tensor>& found_inf) {
  return {lr, step, grad_scale.value_or(at::Tensor()), found_inf.value_or(at::Tensor())};
}

}  // namespace ampctl::kernels
