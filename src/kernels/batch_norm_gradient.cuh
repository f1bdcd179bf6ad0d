// What every backward pass of batch norm does with its two sums. C++17.
//
// With g the gradient behind the normalisation, m rows and d = x - mean (https://arxiv.org/abs/1502.03167):
//   grad_bias = sum g, grad_weight = invstd sum g d,
//   grad_input = weight invstd (g - grad_bias / m - d invstd grad_weight / m)
#pragma once

#include "kernels/batch_norm_affine.cuh"
#include "kernels/batch_norm_sums.cuh"

namespace ampctl::kernels {

/// A pack of the output's gradient from each of its one or two readers.
template <typename T, bool kTwoGradients>
struct ReaderGradients {
  ChannelPack<T> packs[kTwoGradients ? 2 : 1];

  static __device__ ReaderGradients load(const void* first, const void* second, int64_t index) {
    ReaderGradients gradients;
    gradients.packs[0] = ChannelPack<T>::load(first, index);
    if constexpr (kTwoGradients) gradients.packs[1] = ChannelPack<T>::load(second, index);
    return gradients;
  }
  __device__ void sum(float (&values)[kBatchNormPack]) const {
    packs[0].unpack(values);
    if constexpr (kTwoGradients) {
      float other[kBatchNormPack];
      packs[1].unpack(other);
#pragma unroll
      for (int c = 0; c < kBatchNormPack; ++c) values[c] += other[c];
    }
  }
};

/// Of a gradient's elements those stay of which the output was positive: worked out from the input anew,
__device__ inline void pass_relu_backward(float (&gradient)[kBatchNormPack],
                                          const float (&input)[kBatchNormPack], const Affine& affine) {
#pragma unroll
  for (int c = 0; c < kBatchNormPack; ++c) {
    gradient[c] = passes_relu(affine(input[c], c)) ? gradient[c] : 0.0F;
  }
}

/// or read from bits.
__device__ inline void pass_relu_backward(float (&gradient)[kBatchNormPack], unsigned positive) {
#pragma unroll
  for (int c = 0; c < kBatchNormPack; ++c) gradient[c] = (positive >> c & 1U) != 0 ? gradient[c] : 0.0F;
}

/// The same, rounded and stored: the kernel that reads it next and this one see the same gradient.
template <typename T>
__device__ void store_passed(float (&gradient)[kBatchNormPack], unsigned positive, void* gradients,
                             int64_t index) {
  pass_relu_backward(gradient, positive);
  const auto rounded = ChannelPack<T>::pack(gradient);
  rounded.store(gradients, index);
  rounded.unpack(gradient);
}

/// From the threads' sums of g and g d to the gradients of weight and bias.
__device__ inline void finish_gradient_sums(GroupSums& shared, const BatchNormScratch& scratch,
                                            float (&sums)[kBatchNormPack], float (&products)[kBatchNormPack],
                                            int channels, const float* invstd, float* grad_weight,
                                            float* grad_bias) {
  if (!leave_partials(scratch, block_sums(shared, sums, products))) return;
  const float2 all = add_slices(shared, scratch);
  const int channel = static_cast<int>(blockIdx.x * kBatchNormGroup + threadIdx.x);
  if (threadIdx.x >= kBatchNormGroup || channel >= channels) return;
  grad_bias[channel] = all.x;
  grad_weight[channel] = all.y * invstd[channel];
}

/// The gradient of the input, for the channels of one pack.
struct InputGradient {
  Affine affine;
  float mean[kBatchNormPack];
  float slope[kBatchNormPack];
  float offset[kBatchNormPack];

  __device__ InputGradient(const BatchNormChannels& constants, const float* grad_weight,
                           const float* grad_bias, float rows, int channel)
      : affine(Affine::load(constants, channel)) {
    float invstd[kBatchNormPack];
    load_channels(constants.invstd, channel, invstd);
    load_channels(constants.mean, channel, mean);
    load_channels(grad_weight, channel, slope);
    load_channels(grad_bias, channel, offset);
#pragma unroll
    for (int c = 0; c < kBatchNormPack; ++c) {
      slope[c] *= -affine.scale[c] * invstd[c] / rows;
      offset[c] *= -affine.scale[c] / rows;
    }
  }
  __device__ float operator()(float gradient, float input, int c) const {
    return fmaf(affine.scale[c], gradient, fmaf(slope[c], input - mean[c], offset[c]));
  }
};

}  // namespace ampctl::kernels
