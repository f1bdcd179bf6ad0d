#include "nn/working_weights.h"

#include <algorithm>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty_like.h>

#include "base/error.h"

namespace ampctl::nn {

WorkingWeights::WorkingWeights(Layer& model, c10::ScalarType dtype) {
  if (!at::isReducedFloatingType(dtype)) {
    throw Error(ErrorKind::internal,
                std::string("working weights are float16 or bfloat16, not ") + c10::toString(dtype));
  }
  collect(model, dtype);
  refresh();
  for (const auto& entry : entries_) entry.working->attach(entry.copy);
}

WorkingWeights::~WorkingWeights() {
  for (const auto& entry : entries_) entry.working->detach();
}

void WorkingWeights::collect(torch::nn::Module& module, c10::ScalarType dtype) {
  const auto* layer = dynamic_cast<const Layer*>(&module);
  if (layer != nullptr && layer->force_float32()) return;
  if (auto* holder = dynamic_cast<HasWorkingWeights*>(&module)) {
    for (const auto& [parameter, working] : holder->working_weights()) {
      const bool is_known =
          std::any_of(entries_.begin(), entries_.end(),
                      [place = working](const Entry& entry) { return entry.working == place; });
      if (is_known || parameter.scalar_type() != at::kFloat) continue;
      entries_.push_back({parameter, at::empty_like(parameter.detach(), dtype), working});
    }
  }
  for (const auto& child : module.children()) collect(*child, dtype);
}

std::vector<std::pair<at::Tensor, at::Tensor>> WorkingWeights::copies() const {
  std::vector<std::pair<at::Tensor, at::Tensor>> result;
  result.reserve(entries_.size());
  for (const auto& entry : entries_) result.emplace_back(entry.parameter, entry.copy);
  return result;
}

void WorkingWeights::refresh() {
  if (entries_.empty()) return;
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> copies;
  std::vector<at::Tensor> parameters;
  for (const auto& entry : entries_) {
    copies.push_back(entry.copy);
    parameters.push_back(entry.parameter);
  }
  at::_foreach_copy_(copies, parameters);
}

void WorkingWeights::set_gradient_stream(c10::Stream stream) {
  for (const auto& entry : entries_) entry.working->set_gradient_stream(stream);
}

}  // namespace ampctl::nn
