// What batch norm and ReLU do to eight channels of a pixel. C++17.
#pragma once

#include "kernels/batch_norm_pack.cuh"

namespace ampctl::kernels {

/// Normalisation, weight and bias in one multiplication and addition. Rounded in one way only, whatever is
/// around it: the backward pass works out anew which outputs were positive.
struct Affine {
  float scale[kBatchNormPack];
  float shift[kBatchNormPack];

  static __device__ float scale_of(float weight, float invstd) { return __fmul_rn(weight, invstd); }
  static __device__ float shift_of(float bias, float mean, float scale) { return fmaf(-mean, scale, bias); }

  static __device__ Affine load(const BatchNormChannels& channels, int channel) {
    Affine affine;
    float mean[kBatchNormPack];
    load_channels(channels.weight, channel, affine.scale);
    load_channels(channels.invstd, channel, affine.shift);
#pragma unroll
    for (int c = 0; c < kBatchNormPack; ++c) {
      affine.scale[c] = scale_of(affine.scale[c], affine.shift[c]);
    }
    load_channels(channels.mean, channel, mean);
    load_channels(channels.bias, channel, affine.shift);
#pragma unroll
    for (int c = 0; c < kBatchNormPack; ++c) {
      affine.shift[c] = shift_of(affine.shift[c], mean[c], affine.scale[c]);
    }
    return affine;
  }
  __device__ float operator()(float value, int c) const { return fmaf(value, scale[c], shift[c]); }
};

/// Whether ReLU lets a value and its gradient pass. A NaN passes, as in PyTorch.
__device__ inline bool passes_relu(float value) { return !(value <= 0.0F); }

/// ReLU; returns a bit a channel, the first in the lowest one, where it let the value pass.
__device__ inline unsigned relu(float (&values)[kBatchNormPack]) {
  unsigned positive = 0;
#pragma unroll
  for (int c = 0; c < kBatchNormPack; ++c) {
    positive |= static_cast<unsigned>(passes_relu(values[c])) << c;
    values[c] = passes_relu(values[c]) ? values[c] : 0.0F;
  }
  return positive;
}

}  // namespace ampctl::kernels
