// The CUDA side of batch normalisation in training, free of LibTorch so that nvcc has little to read. C++17.
//
// Every pass is a kernel that sums over rows and one that goes over the elements. Sums are float32, made of
// partial sums in a fixed order by the block of a channel group that finishes last: the same bits in every
// run, without atomics on floats and without a kernel of its own.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace ampctl::kernels {

enum class BatchNormType : uint8_t { float32, float16, bfloat16 };

/// What follows the normalisation.
enum class BatchNormForm : uint8_t { plain, relu, add_relu };

/// Images in channels_last order are a matrix (rows, channels) with a row a pixel. 16-bit and float32
/// elements are read eight channels at a time, from addresses that are multiples of 16.
struct BatchNormShape {
  BatchNormType type;
  int64_t rows;         // at least 2
  int channels;         // a multiple of 8, at most kBatchNormMaxChannels
  int multiprocessors;  // of the device
};

constexpr int kBatchNormPack = 8;
constexpr int kBatchNormMaxChannels = 2048;

/// Channels whose sums a block makes.
constexpr int kBatchNormGroup = 64;
constexpr int kBatchNormMaxGroups = kBatchNormMaxChannels / kBatchNormGroup;

constexpr int batch_norm_groups(int channels) { return (channels + kBatchNormGroup - 1) / kBatchNormGroup; }

/// Blocks that sum on one multiprocessor at a time, at most.
constexpr int kBatchNormSumBlocks = 2;

/// Floats that the partial sums take.
constexpr int64_t batch_norm_partials(int channels, int multiprocessors) {
  const int64_t blocks = int64_t{kBatchNormSumBlocks} * multiprocessors;
  const int64_t groups = batch_norm_groups(channels);
  return (blocks > groups ? blocks : groups) * kBatchNormGroup * 2;
}

/// Device memory of one launch. Tickets are zeros before and after: a pass counts its finished blocks there.
struct BatchNormScratch {
  float* partials;    // batch_norm_partials
  unsigned* tickets;  // one a channel group
};

/// Per channel, float32 of any alignment.
struct BatchNormChannels {
  const float* weight;
  const float* bias;
  const float* mean;
  const float* invstd;  // 1 / sqrt(biased variance + eps)
};

/// What the forward pass finds out and updates.
struct BatchNormStatistics {
  float* mean;
  float* invstd;
  float* running_mean;  // may be null, with running_var
  float* running_var;
  int64_t* num_batches_tracked;  // one more; may be null
  float momentum;
  float eps;
  /// (2, channels): sums of the input and of its squares, or null. Differences of squares lose what a channel
  /// varies by when its mean is far from zero, so they are taken where mean^2 <= kMaxMeanSquared * variance
  /// for every channel of a group (an error of about 1e-5 of the variance); others are read again.
  const float* sums;
};
constexpr float kMaxMeanSquared = 64.0F;

cudaError_t launch_batch_norm_statistics(const BatchNormShape& shape, const void* input,
                                         const BatchNormStatistics& statistics,
                                         const BatchNormScratch& scratch, cudaStream_t stream);

/// With add_relu also reads residual and writes positive: a bit an element, a byte eight channels.
struct BatchNormApply {
  const void* input;
  const void* residual;
  void* output;
  uint8_t* positive;
};
cudaError_t launch_batch_norm_apply(const BatchNormShape& shape, BatchNormForm form,
                                    const BatchNormApply& tensors, const BatchNormChannels& channels,
                                    cudaStream_t stream);

/// grad_second may be null, and is so unless the form is add_relu: it is added to grad_output first.
/// grad_residual, with add_relu only, is the gradient before the addition.
struct BatchNormBackward {
  const void* grad_output;
  const void* grad_second;
  const void* input;
  const uint8_t* positive;
  void* grad_residual;
  void* grad_input;
  float* grad_weight;
  float* grad_bias;
};
cudaError_t launch_batch_norm_backward(const BatchNormShape& shape, BatchNormForm form,
                                       const BatchNormBackward& tensors, const BatchNormChannels& channels,
                                       const BatchNormScratch& scratch, cudaStream_t stream);

}  // namespace ampctl::kernels
