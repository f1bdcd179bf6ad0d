// Batch norm of few rows: a block has some channels for itself, from their sums to their elements, so that a
// pass is one kernel and no block waits for another. C++17.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/batch_norm_kernel.h"

namespace ampctl::kernels {

/// Up to here one block is done with its channels before two kernels would be.
constexpr int64_t kBatchNormFewRows = 3200;

inline bool has_few_rows(const BatchNormShape& shape) { return shape.rows <= kBatchNormFewRows; }

/// `channels.mean` and `channels.invstd` are those that the statistics write.
cudaError_t launch_batch_norm_columns_forward(const BatchNormShape& shape, BatchNormForm form,
                                              const BatchNormApply& tensors,
                                              const BatchNormChannels& channels,
                                              const BatchNormStatistics& statistics, cudaStream_t stream);

cudaError_t launch_batch_norm_columns_backward(const BatchNormShape& shape, BatchNormForm form,
                                               const BatchNormBackward& tensors,
                                               const BatchNormChannels& channels, cudaStream_t stream);

}  // namespace ampctl::kernels
