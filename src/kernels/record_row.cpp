#include "kernels/record_row.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <torch/library.h>

namespace ampctl::kernels {
namespace {

using Op = void(at::Tensor&, at::Tensor&, at::Tensor&, at::TensorList, double, const at::Tensor&);

void composition(at::Tensor& rows, at::Tensor& flags, at::Tensor& counts, at::TensorList values, double last,
                 const at::Tensor& nonfinite) {
  std::vector<at::Tensor> columns;
  for (const auto& value : values) columns.push_back(value.to(at::kDouble));
  columns.push_back(at::full({}, last, rows.options()));
  const at::Tensor recorded = counts.narrow(0, 0, 1);
  const at::Tensor place = recorded.remainder(rows.size(0));
  rows.index_copy_(0, place, at::stack(columns).unsqueeze(0));
  flags.index_copy_(0, place, nonfinite.unsqueeze(0));
  recorded.add_(1);
}

}  // namespace

void record_row_(at::Tensor& rows, at::Tensor& flags, at::Tensor& counts,
                 const std::vector<at::Tensor>& values, double last, const at::Tensor& nonfinite) {
  const at::NoGradGuard no_grad;
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ampctl::record_row_", "").typed<Op>();
  op.call(rows, flags, counts, values, last, nonfinite);
}

void record_row_reference_(at::Tensor& rows, at::Tensor& flags, at::Tensor& counts,
                           const std::vector<at::Tensor>& values, double last, const at::Tensor& nonfinite) {
  const at::NoGradGuard no_grad;
  composition(rows, flags, counts, values, last, nonfinite);
}

TORCH_LIBRARY_FRAGMENT(ampctl, library) {
  library.def(
      "record_row_(Tensor(a!) rows, Tensor(b!) flags, Tensor(c!) counts, Tensor[] values, float last, "
      "Tensor nonfinite) -> ()");
}

TORCH_LIBRARY_IMPL(ampctl, CPU, library) { library.impl("record_row_", &composition); }

#ifndef AMPCTL_WITH_CUDA
TORCH_LIBRARY_IMPL(ampctl, CUDA, library) { library.impl("record_row_", &composition); }
#endif

}  // namespace ampctl::kernels
