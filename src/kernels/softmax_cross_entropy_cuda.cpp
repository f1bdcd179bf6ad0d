#include <tuple>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/softmax_cross_entropy.h"
#include "kernels/softmax_cross_entropy_kernel.h"

namespace ampctl::kernels {
namespace {

LogitsType logits_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return LogitsType::float16;
    case at::kBFloat16:
      return LogitsType::bfloat16;
    default:
      return LogitsType::float32;
  }
}

CrossEntropyRows rows_of(const at::Tensor& logits, const at::Tensor& targets,
                         const CrossEntropyOptions& options) {
  CrossEntropyRows rows{};
  rows.type = logits_type(logits.scalar_type());
  rows.logits = logits.const_data_ptr();
  rows.targets = targets.const_data_ptr<int64_t>();
  rows.rows = logits.size(0);
  rows.classes = static_cast<int>(logits.size(1));
  rows.ignore_index = options.ignore_index;
  rows.label_smoothing = static_cast<float>(options.label_smoothing);
  return rows;
}

std::tuple<at::Tensor, at::Tensor> forward_cuda(const at::Tensor& logits, const at::Tensor& targets,
                                                double label_smoothing, int64_t ignore_index) {
  const CrossEntropyOptions options{label_smoothing, ignore_index};
  // Logits without a kernel come here when the operator is called by its name.
  if (!has_softmax_cross_entropy_kernel(logits)) {
    return {softmax_cross_entropy_reference(logits, targets, options), softmax_normalizers_reference(logits)};
  }
  const c10::cuda::CUDAGuard guard(logits.device());
  const at::Tensor columns = targets.contiguous();
  const auto sums = logits.options().dtype(at::kFloat);
  const at::Tensor losses = at::empty({logits.size(0)}, sums);
  at::Tensor normalizers = at::empty({logits.size(0), 2}, sums);
  C10_CUDA_CHECK(
      launch_cross_entropy_forward(rows_of(logits, columns, options), losses.mutable_data_ptr<float>(),
                                   normalizers.mutable_data_ptr<float>(), c10::cuda::getCurrentCUDAStream()));
  return {losses.sum(), normalizers};
}

at::Tensor backward_cuda(const at::Tensor& grad_output, const at::Tensor& logits,
                         const at::Tensor& normalizers, const at::Tensor& targets, double label_smoothing,
                         int64_t ignore_index) {
  const CrossEntropyOptions options{label_smoothing, ignore_index};
  if (!has_softmax_cross_entropy_kernel(logits)) {
    return softmax_cross_entropy_backward_reference(grad_output, logits, targets, options);
  }
  const c10::cuda::CUDAGuard guard(logits.device());
  const at::Tensor columns = targets.contiguous();
  at::Tensor grad_logits = at::empty_like(logits);
  C10_CUDA_CHECK(
      launch_cross_entropy_backward(rows_of(logits, columns, options), grad_output.const_data_ptr<float>(),
                                    normalizers.const_data_ptr<float>(), grad_logits.mutable_data_ptr(),
                                    c10::cuda::getCurrentCUDAStream()));
  return grad_logits;
}

}  // namespace

TORCH_LIBRARY_IMPL(ampctl, CUDA, library) {
  library.impl("softmax_cross_entropy_with_normalizers", &forward_cuda);
  library.impl("softmax_cross_entropy_backward", &backward_cuda);
}

}  // namespace ampctl::kernels
