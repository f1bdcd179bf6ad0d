#include "task/classification.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>

#include "kernels/softmax_cross_entropy.h"

namespace ampctl::task {
namespace {

constexpr int64_t kTopK = 5;

/// Number of classes that rank before the target, int64 (N); C for a row with a NaN.
at::Tensor target_ranks(const at::Tensor& logits, const at::Tensor& targets) {
  const int64_t classes = logits.size(1);
  const at::Tensor target_column = targets.unsqueeze(1);
  const at::Tensor target_logits = logits.gather(1, target_column);
  const at::Tensor lower_class = at::arange(classes, targets.options()).lt(target_column);
  const at::Tensor before =
      logits.gt(target_logits).logical_or_(logits.eq(target_logits).logical_and_(lower_class));
  return before.sum(1).masked_fill_(logits.isnan().any(1), classes);
}

}  // namespace

at::Tensor loss_sum(const at::Tensor& logits, const at::Tensor& targets,
                    const ClassificationOptions& options) {
  const kernels::CrossEntropyOptions rule{.label_smoothing = options.label_smoothing};
  return options.fused ? kernels::softmax_cross_entropy(logits, targets, rule)
                       : kernels::softmax_cross_entropy_reference(logits, targets, rule);
}

at::Tensor metric_sums(const at::Tensor& logits, const at::Tensor& targets) {
  const c10::NoGradGuard no_grad;
  // Sixteen-bit log-softmax would lose the loss's low bits.
  const bool reduced = at::isReducedFloatingType(logits.scalar_type());
  const at::Tensor losses = at::cross_entropy_loss(reduced ? logits.to(at::kFloat) : logits, targets,
                                                   /*weight=*/{}, at::Reduction::None);
  const at::Tensor ranks = target_ranks(logits, targets);
  const at::Tensor loss = losses.sum(at::kDouble);
  const at::Tensor top1 = ranks.lt(1).sum(at::kDouble);
  const at::Tensor top5 = ranks.lt(std::min(kTopK, logits.size(1))).sum(at::kDouble);
  return at::stack({loss, top1, top5, at::full_like(loss, targets.size(0))});
}

}  // namespace ampctl::task
