// Batch normalisation over the batches of all ranks, without knowing how ranks talk to each other.
#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

namespace ampctl::nn {

/// Adds up a 1-dim float32 or float64 tensor over all ranks, in place; on a GPU it is enqueued on the current
/// stream and the host does not wait. Every rank calls it in the same order with the same shapes; in backward
/// passes it is called by autograd's thread. Whoever provides it outlives the layers that hold it.
using SumOverRanks = std::function<void(at::Tensor&)>;

/// What a training batch norm reads and, of the running statistics, updates.
struct SyncBatchNormInputs {
  at::Tensor weight;        ///< (C) float32, or float64 for a float64 input
  at::Tensor bias;          ///< as weight
  at::Tensor running_mean;  ///< as weight; updated in place. Undefined, as running_var: not wanted
  at::Tensor running_var;   ///< as weight; updated in place with the joint batch's unbiased variance
  double momentum = 0.1;    ///< weight of the batch in the running statistics
  double eps = 1e-5;
};

/// torch.nn.SyncBatchNorm in training: normalises `input` (N, C, ...) by mean and variance of the joint batch
/// of all ranks, each rank weighted by its number of values. Types and memory order of the result are those
/// of `input`, which may be float16 or bfloat16 beside float32 weights. N may differ between ranks and be 0
/// on some. The gradients of weight and bias are this rank's own, as for every other parameter.
///
/// One sum over ranks forward, of (sum, sum of squares, count): C + C + 1 values. Local mean and variance are
/// worked out by PyTorch's own one-pass kernels in float32; only the joining of ranks is done with squares,
/// in float64, where it costs mean^2 / variance units in the 16th digit. One sum backward, of (sum of dy, sum
/// of dy (x - mean)), as in torch/nn/modules/_functions.py. Nothing is read on the host, so that a joint
/// batch with one value a channel is not refused: its running variance takes in 0.
at::Tensor sync_batch_norm(const at::Tensor& input, const SyncBatchNormInputs& inputs,
                           const SumOverRanks& sum_over_ranks);

}  // namespace ampctl::nn
