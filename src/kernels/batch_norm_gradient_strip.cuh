// The two passes of batch norm's gradients over the elements. C++17.
#pragma once

#include "kernels/batch_norm_gradient.cuh"
#include "kernels/batch_norm_pack.cuh"
#include "kernels/batch_norm_strip.cuh"

namespace ampctl::kernels {

/// A thread's sums of the gradient and of its product with the input's deviation from its mean.
struct GradientSums {
  float mean[kBatchNormPack] = {};
  float sums[kBatchNormPack] = {};
  float products[kBatchNormPack] = {};

  __device__ void load_mean(const BatchNormChannels& constants, int channel) {
    load_channels(constants.mean, channel, mean);
  }

  /// With add_relu also writes grad_residual.
  template <typename T, BatchNormForm kForm, bool kTwoGradients, int kSteps>
  __device__ void add(const BatchNormBackward& tensors, const Strip<kSteps>& strip, const Affine& affine) {
    constexpr bool kAdds = kForm == BatchNormForm::add_relu;
    ChannelPack<T> gradient[kSteps];
    ChannelPack<T> second[kTwoGradients ? kSteps : 1];
    ChannelPack<T> input[kSteps];
    unsigned positive[kSteps] = {};
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      if (!strip.has(i)) continue;
      const unsigned index = strip[i];
      gradient[i] = ChannelPack<T>::load(tensors.grad_output, index);
      if constexpr (kTwoGradients) second[i] = ChannelPack<T>::load(tensors.grad_second, index);
      input[i] = ChannelPack<T>::load(tensors.input, index);
      if constexpr (kAdds) positive[i] = tensors.positive[index];
    }
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      if (!strip.has(i)) continue;
      float values[kBatchNormPack];
      float x[kBatchNormPack];
      gradient[i].unpack(values);
      input[i].unpack(x);
      if constexpr (kTwoGradients) {
        float other[kBatchNormPack];
        second[i].unpack(other);
#pragma unroll
        for (int c = 0; c < kBatchNormPack; ++c) values[c] += other[c];
      }
      if constexpr (kForm == BatchNormForm::relu) pass_relu_backward(values, x, affine);
      if constexpr (kAdds) {
        pass_relu_backward(values, positive[i]);
        // The second kernel reads what is stored here: both see the same rounded gradient.
        const auto rounded = ChannelPack<T>::pack(values);
        rounded.store(tensors.grad_residual, strip[i]);
        rounded.unpack(values);
      }
#pragma unroll
      for (int c = 0; c < kBatchNormPack; ++c) {
        sums[c] += values[c];
        products[c] = fmaf(values[c], x[c] - mean[c], products[c]);
      }
    }
  }
};

template <typename T, BatchNormForm kForm, int kSteps>
__device__ void write_input_gradient(const BatchNormBackward& tensors, const Strip<kSteps>& strip,
                                     const InputGradient& input_gradient) {
  // After an addition the masked gradient is there already.
  constexpr bool kAdds = kForm == BatchNormForm::add_relu;
  const void* gradients = kAdds ? tensors.grad_residual : tensors.grad_output;
  ChannelPack<T> gradient[kSteps];
  ChannelPack<T> input[kSteps];
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    if (!strip.has(i)) continue;
    const unsigned pack = strip[i];
    gradient[i] = ChannelPack<T>::load(gradients, pack);
    input[i] = ChannelPack<T>::load(tensors.input, pack);
  }
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    if (!strip.has(i)) continue;
    const unsigned pack = strip[i];
    float values[kBatchNormPack];
    float x[kBatchNormPack];
    gradient[i].unpack(values);
    input[i].unpack(x);
    if constexpr (kForm == BatchNormForm::relu) pass_relu_backward(values, x, input_gradient.affine);
#pragma unroll
    for (int c = 0; c < kBatchNormPack; ++c) values[c] = input_gradient(values[c], x[c], c);
    ChannelPack<T>::pack(values).store(tensors.grad_input, pack);
  }
}

}  // namespace ampctl::kernels
