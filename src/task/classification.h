// Image classification: targets, loss and metrics.
#pragma once

#include <ATen/core/Tensor.h>

namespace ampctl::task {

struct ClassificationOptions {
  double label_smoothing = 0.0;  ///< 0 to 1: the share of a target's weight spread evenly over all classes
  bool fused = true;             ///< one pass over the logits each way, where there is a kernel for them
};

/// Sum over samples of the cross-entropy with label smoothing, 0-dim, float32 whatever autocast says (float64
/// for float64 logits): torch.nn.functional.cross_entropy(..., reduction="sum"). logits (N, C), targets (N)
/// int64 in [0, C), of which the fused kernels (kernels/softmax_cross_entropy.h) and PyTorch's assert on the
/// device that they are. Nothing is read on the host.
at::Tensor loss_sum(const at::Tensor& logits, const at::Tensor& targets,
                    const ClassificationOptions& options);

/// Positions in the result of metric_sums.
enum MetricIndex : int64_t { kLoss = 0, kTop1 = 1, kTop5 = 2, kSamples = 3, kMetricCount = 4 };

/// Sums over samples for exact evaluation: float64 (4): loss (without smoothing), top-1 correct, top-5
/// correct, samples. With fewer than five classes top-5 counts the classes there are. Stays on the logits'
/// device; takes no part in gradients and reads nothing on the host.
///
/// A sample is top-k correct when fewer than k classes rank before its target: those with a greater logit,
/// and of those with an equal one the lower classes, so that top-1 is torch.argmax and a model that answers
/// the same for all classes scores by chance. A row with a NaN counts as wrong.
at::Tensor metric_sums(const at::Tensor& logits, const at::Tensor& targets);

}  // namespace ampctl::task
