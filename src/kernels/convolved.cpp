#include "kernels/convolved.h"

#include <ATen/ops/stack.h>

namespace ampctl::kernels {

at::Tensor convolved_sums(const at::Tensor& output) {
  const at::Tensor wide = output.detach().to(at::kDouble);
  return at::stack({wide.sum({0, 2, 3}), wide.square().sum({0, 2, 3})}).to(at::kFloat);
}

}  // namespace ampctl::kernels
