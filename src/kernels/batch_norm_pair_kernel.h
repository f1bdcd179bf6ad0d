// The CUDA side of two batch norms that are added and go through ReLU, free of LibTorch so that nvcc has
// little to read. C++17.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/batch_norm_kernel.h"

namespace ampctl::kernels {

/// One of the two norms; both inputs have the same shape and type.
struct BatchNormBranch {
  const void* input;
  BatchNormChannels channels;
};

/// Writes relu(norm(first) + norm(second)), and positive, a bit an element, a byte eight channels.
cudaError_t launch_batch_norm_pair_apply(const BatchNormShape& shape, const BatchNormBranch& first,
                                         const BatchNormBranch& second, void* output, uint8_t* positive,
                                         cudaStream_t stream);

struct BatchNormBranchGradients {
  void* input;
  float* weight;
  float* bias;
};

/// Pairs of sums that the backward pass makes: see batch_norm_partials.
constexpr int kBatchNormPairSums = 2;

/// grad_second may be null: it is added to grad_output first. The gradient before the addition of the norms,
/// which both of their inputs' gradients are made of, is kept in first_gradients.input in between.
struct BatchNormPairBackward {
  const void* grad_output;
  const void* grad_second;
  const uint8_t* positive;
  BatchNormBranch first;
  BatchNormBranch second;
  BatchNormBranchGradients first_gradients;
  BatchNormBranchGradients second_gradients;
};
cudaError_t launch_batch_norm_pair_backward(const BatchNormShape& shape, const BatchNormPairBackward& tensors,
                                            const BatchNormScratch& scratch, cudaStream_t stream);

}  // namespace ampctl::kernels
