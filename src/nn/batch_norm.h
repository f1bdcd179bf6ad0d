// Batch normalisation over images.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/batch_norm_act.h"
#include "kernels/convolved.h"
#include "nn/gradient_slots.h"
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
/// normalises by the joint batch of all ranks (sync_batch_norm). Else, where fused(), it runs on
/// kernels::batch_norm_act.
class BatchNorm2d : public Layer, public HasGradientSlots {
 public:
  explicit BatchNorm2d(int64_t num_features, const BatchNormOptions& options = {});

  [[nodiscard]] const at::Tensor& weight() const { return weight_; }
  [[nodiscard]] bool is_norm() const override { return true; }
  ParameterSlots gradient_slots() override { return {{weight_, &weight_slot_}, {bias_, &bias_slot_}}; }

  /// Null: back to this rank's batch alone.
  void set_sum_over_ranks(SumOverRanks sum_over_ranks) { sum_over_ranks_ = std::move(sum_over_ranks); }
  [[nodiscard]] bool is_synchronised() const { return sum_over_ranks_ != nullptr; }

  /// For an operator that does the work of this layer and its neighbours: what it needs to normalise `input`
  /// in this layer's place. Nothing where the layer has to be called: in evaluation, synchronised, forced to
  /// float32, not fused(), or when there is no kernel for this input. Throws as a call does.
  [[nodiscard]] std::optional<kernels::BatchNormInputs> fused_inputs(const kernels::Convolved& input);

 protected:
  at::Tensor forward(const at::Tensor& input) override;

 private:
  std::optional<kernels::BatchNormInputs> kernel_inputs(const at::Tensor& input);

  BatchNormOptions options_;
  at::Tensor weight_;
  at::Tensor bias_;
  at::Tensor running_mean_;
  at::Tensor running_var_;
  at::Tensor num_batches_tracked_;
  at::Tensor tickets_;
  kernels::GradientSlotPtr weight_slot_;
  kernels::GradientSlotPtr bias_slot_;
  SumOverRanks sum_over_ranks_;
};

}  // namespace ampctl::nn
