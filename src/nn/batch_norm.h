// Batch normalisation over images.
#pragma once

#include <cstdint>
#include <utility>

#include "nn/layer.h"
#include "nn/sync_batch_norm.h"

namespace ampctl::nn {

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;  ///< weight of the batch in the running statistics
};

/// torch.nn.BatchNorm2d: (N, num_features, H, W) to the same shape. Parameters weight (ones) and bias
/// (zeros), buffers running_mean, running_var (num_features) and num_batches_tracked (0-dim int64). In
/// training it normalises by the batch and updates the buffers in place; the buffers may be re-pointed with
/// set_data at any time. Throws a usage error in training for an input with one value a channel, as PyTorch
/// does: its unbiased variance would be NaN and stay in running_var. In the second run of a checkpointed
/// layer it leaves the buffers alone. With a sum over ranks it is torch.nn.SyncBatchNorm: in training it
/// normalises by the joint batch of all ranks (sync_batch_norm).
class BatchNorm2d : public Layer {
 public:
  explicit BatchNorm2d(int64_t num_features, const BatchNormOptions& options = {});

  [[nodiscard]] const at::Tensor& weight() const { return weight_; }
  [[nodiscard]] bool is_norm() const override { return true; }

  /// Null: back to this rank's batch alone.
  void set_sum_over_ranks(SumOverRanks sum_over_ranks) { sum_over_ranks_ = std::move(sum_over_ranks); }
  [[nodiscard]] bool is_synchronised() const { return sum_over_ranks_ != nullptr; }

 protected:
  at::Tensor forward(const at::Tensor& input) override;

 private:
  BatchNormOptions options_;
  at::Tensor weight_;
  at::Tensor bias_;
  at::Tensor running_mean_;
  at::Tensor running_var_;
  at::Tensor num_batches_tracked_;
  SumOverRanks sum_over_ranks_;
};

}  // namespace ampctl::nn
