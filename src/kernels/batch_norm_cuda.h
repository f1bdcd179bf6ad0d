// What the operators that run batch norm's CUDA kernels share: from tensors to what kernels take.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/batch_norm_act_passes.h"
#include "kernels/batch_norm_kernel.h"

namespace ampctl::kernels {

/// `input` as has_batch_norm_kernel accepts it.
BatchNormShape batch_norm_shape(const at::Tensor& input);

/// Images as the kernels read them: contiguous in channels_last and aligned, copied if they are not.
at::Tensor batch_norm_readable(const at::Tensor& images);

/// True when `images` can be read by the kernels as they are.
bool is_batch_norm_readable(const at::Tensor& images);

BatchNormChannels batch_norm_channels(const BatchNormSaved& saved);

/// Memory for the partial sums of one pass (batch_norm_partials), and which half of the tickets it takes.
enum class BatchNormPass : int64_t { forward, backward };
class BatchNormWorkspace {
 public:
  BatchNormWorkspace(const BatchNormShape& shape, const at::Tensor& tickets, BatchNormPass pass,
                     int pairs = 1);
  [[nodiscard]] BatchNormScratch scratch() const;

 private:
  at::Tensor partials_;
  at::Tensor tickets_;
};

/// The statistics of `input`: mean and invstd, (C) float32 each, made here; `inputs` updated.
std::tuple<at::Tensor, at::Tensor> batch_norm_statistics(const at::Tensor& input, const BatchNormShape& shape,
                                                         const BatchNormInputs& inputs);

}  // namespace ampctl::kernels
