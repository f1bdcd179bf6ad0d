// Cross-entropy of a softmax with label smoothing, summed over samples, in one pass over the logits each way
// and without a float32 copy of them. Registered with PyTorch's dispatcher as
//   ampctl::softmax_cross_entropy(Tensor logits, Tensor targets, float label_smoothing, int ignore_index)
//       -> Tensor
//   ampctl::softmax_cross_entropy_with_normalizers(Tensor logits, Tensor targets, float label_smoothing,
//       int ignore_index) -> (Tensor loss, Tensor normalizers)
//   ampctl::softmax_cross_entropy_backward(Tensor grad_output, Tensor logits, Tensor normalizers,
//       Tensor targets, float label_smoothing, int ignore_index) -> Tensor
// Under autocast each takes the logits in the dtype they have: sums are float32 anyway.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace ampctl::kernels {

struct CrossEntropyOptions {
  double label_smoothing = 0.0;  ///< 0 to 1: the share of a target's weight spread evenly over all classes
  int64_t ignore_index = -100;   ///< samples with this target count for nothing
};

/// torch.nn.functional.cross_entropy(..., reduction="sum"), in float32 (float64 for float64 logits) whatever
/// autocast says: logits (N, C), targets (N) int64 in [0, C) or ignore_index, to a 0-dim loss. Differentiable
/// any number of times. Nothing is read on the host. Where has_softmax_cross_entropy_kernel says no it is
/// PyTorch's own operator on float32 logits, bit by bit. Throws a usage error for other shapes and dtypes.
///
/// A target out of range stops the kernel with a device-side assertion, as PyTorch's. Infs and NaNs come out
/// as in PyTorch, but for samples with ignore_index, which are not looked at: their gradient is 0.
at::Tensor softmax_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                                 const CrossEntropyOptions& options);

/// True for what the CUDA kernels take: float16, bfloat16 and float32 logits on a GPU, contiguous, of at most
/// 2^30 classes. Never true in builds without CUDA kernels.
bool has_softmax_cross_entropy_kernel(const at::Tensor& logits);

struct LossWithNormalizers {
  at::Tensor loss;         ///< as of softmax_cross_entropy, and differentiable
  at::Tensor normalizers;  ///< (N, 2): a row's largest logit m, and the logarithm of the sum of exp(x - m)
};

/// What softmax_cross_entropy runs on if there is a kernel; from stock operators elsewhere. Backward keeps
/// the logits as they are and the normalizers: log-softmax is (x - m) - log of the sum, which keeps its low
/// digits where logits are large; their sum, one number a row, would lose them. Losses are added up in an
/// order that depends on N alone: the same bits in every run.
LossWithNormalizers softmax_cross_entropy_with_normalizers(const at::Tensor& logits,
                                                           const at::Tensor& targets,
                                                           const CrossEntropyOptions& options);

/// From stock operators on any device: the loss; the normalizers; and the gradient of the logits in their
/// dtype from grad_output (0-dim), differentiable itself.
at::Tensor softmax_cross_entropy_reference(const at::Tensor& logits, const at::Tensor& targets,
                                           const CrossEntropyOptions& options);
at::Tensor softmax_normalizers_reference(const at::Tensor& logits);
at::Tensor softmax_cross_entropy_backward_reference(const at::Tensor& grad_output, const at::Tensor& logits,
                                                    const at::Tensor& targets,
                                                    const CrossEntropyOptions& options);

}  // namespace ampctl::kernels
