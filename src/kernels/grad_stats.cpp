#include "kernels/grad_stats.h"

#include <cmath>
#include <string>
#include <tuple>

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/stack.h>
#include <torch/library.h>

#include "base/error.h"

namespace ampctl::kernels {
namespace {

using Result = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using Op = Result(at::TensorList);

constexpr int kLanes = 8;  // independent sums, so that additions need not wait for one another

struct Stats {
  bool nonfinite;
  double sum_squares;
};

template <typename T>
Stats stats_of(const T* values, int64_t numel) {
  double lanes[kLanes] = {};
  bool nonfinite = false;
  const auto add = [&](int lane, int64_t index) {
    const auto value = static_cast<double>(values[index]);
    // A float64 may be finite while its square is not; squares of narrower types always fit, so that their
    // sum alone tells.
    if constexpr (std::is_same_v<T, double>) nonfinite = nonfinite || !std::isfinite(value);
    lanes[lane] += value * value;
  };
  int64_t index = 0;
  for (; index + kLanes <= numel; index += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) add(lane, index + lane);
  }
  for (; index < numel; ++index) add(0, index);
  double sum = 0.0;
  for (const double lane : lanes) sum += lane;
  if constexpr (!std::is_same_v<T, double>) nonfinite = !std::isfinite(sum);
  return {nonfinite, sum};
}

Stats stats_of(const at::Tensor& grad) {
  switch (grad.scalar_type()) {
    case at::kHalf:
      return stats_of(grad.const_data_ptr<at::Half>(), grad.numel());
    case at::kBFloat16:
      return stats_of(grad.const_data_ptr<at::BFloat16>(), grad.numel());
    case at::kFloat:
      return stats_of(grad.const_data_ptr<float>(), grad.numel());
    default:
      return stats_of(grad.const_data_ptr<double>(), grad.numel());
  }
}

// With what follows for all gradients together.
Result with_totals(const at::Tensor& nonfinite, const at::Tensor& sum_squares) {
  return {nonfinite, sum_squares, nonfinite.any().to(at::kFloat), sum_squares.sum().sqrt()};
}

Result grad_stats_cpu(at::TensorList grads) {
  const auto count = static_cast<int64_t>(grads.size());
  at::Tensor nonfinite = at::empty({count}, grads[0].options().dtype(at::kByte));
  at::Tensor sum_squares = at::empty({count}, grads[0].options().dtype(at::kDouble));
  auto* flags = nonfinite.mutable_data_ptr<uint8_t>();
  auto* sums = sum_squares.mutable_data_ptr<double>();
  // One thread a tensor: the result does not depend on the number of threads.
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto& grad = grads[static_cast<size_t>(i)];
      const bool dense = grad.is_non_overlapping_and_dense();
      const Stats stats = stats_of(dense ? grad : grad.contiguous());
      flags[i] = stats.nonfinite ? 1 : 0;
      sums[i] = stats.sum_squares;
    }
  });
  return with_totals(nonfinite, sum_squares);
}

Result composition(at::TensorList grads) {
  std::vector<at::Tensor> flags;
  std::vector<at::Tensor> sums;
  for (const auto& grad : grads) {
    flags.push_back(at::isfinite(grad).all().logical_not());
    sums.push_back(grad.to(at::kDouble).square().sum());
  }
  return with_totals(at::stack(flags).to(at::kByte), at::stack(sums));
}

bool is_supported(at::ScalarType dtype) {
  return dtype == at::kHalf || dtype == at::kBFloat16 || dtype == at::kFloat || dtype == at::kDouble;
}

void check(const at::Tensor& grad, const at::Device& device) {
  if (grad.layout() != at::kStrided || !is_supported(grad.scalar_type())) {
    throw usage_error(
        "grad_stats takes dense gradients of float16, bfloat16, float32 or float64, but found one of type " +
        grad.toString());
  }
  if (grad.device() != device) {
    throw usage_error("grad_stats takes gradients of one device, but found some on " + device.str() +
                      " and some on " + grad.device().str());
  }
}

// The list with empty tensors in place of undefined ones.
std::vector<at::Tensor> checked(const std::vector<at::Tensor>& grads) {
  const at::Tensor* first = nullptr;
  for (const auto& grad : grads) {
    if (!grad.defined()) continue;
    if (first == nullptr) first = &grad;
    check(grad, first->device());
  }
  if (first == nullptr) {
    throw Error(ErrorKind::internal,
                "grad_stats found no gradient at all: no parameter took part in the loss that was "
                "differentiated, or backward() was not called");
  }
  std::vector<at::Tensor> result = grads;
  at::Tensor absent;
  for (auto& grad : result) {
    if (grad.defined()) continue;
    if (!absent.defined()) absent = at::empty({0}, first->options());
    grad = absent;
  }
  return result;
}

GradStats to_stats(const Result& result) {
  const auto& [nonfinite, sum_squares, found_inf, norm] = result;
  return {nonfinite, sum_squares, found_inf, norm};
}

}  // namespace

GradStats grad_stats(const std::vector<at::Tensor>& grads) {
  const at::NoGradGuard no_grad;
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("ampctl::grad_stats", "").typed<Op>();
  return to_stats(op.call(checked(grads)));
}

GradStats grad_stats_reference(const std::vector<at::Tensor>& grads) {
  const at::NoGradGuard no_grad;
  return to_stats(composition(checked(grads)));
}

TORCH_LIBRARY_FRAGMENT(ampctl, library) {
  library.def(
      "grad_stats(Tensor[] grads) -> (Tensor nonfinite, Tensor sum_squares, Tensor found_inf, Tensor norm)");
}

TORCH_LIBRARY_IMPL(ampctl, CPU, library) { library.impl("grad_stats", &grad_stats_cpu); }

#ifndef AMPCTL_WITH_CUDA
TORCH_LIBRARY_IMPL(ampctl, CUDA, library) { library.impl("grad_stats", &composition); }
#endif

}  // namespace ampctl::kernels
