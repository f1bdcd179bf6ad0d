// Image classification: targets, loss and metrics.
#pragma once

#include <ATen/core/Tensor.h>

namespace ampctl::task {

struct ClassificationOptions {
  double label_smoothing = 0.0;
};

/// Sum over samples of the cross-entropy with label smoothing, float32, 0-dim
/// (torch.nn.functional.cross_entropy(..., reduction="sum")). logits (N, C), targets (N) int64.
at::Tensor loss_sum(const at::Tensor& logits, const at::Tensor& targets,
                    const ClassificationOptions& options);

/// Sums over samples for exact evaluation: float64 (4): loss (without smoothing), top-1 correct, top-5
/// correct, samples. With fewer than five classes top-5 counts the classes there are. Stays on the logits'
/// device.
at::Tensor metric_sums(const at::Tensor& logits, const at::Tensor& targets);

}  // namespace ampctl::task
