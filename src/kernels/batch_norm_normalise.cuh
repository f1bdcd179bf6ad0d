// What batch norm does with the elements once their statistics are known. C++17.
#pragma once

#include "kernels/batch_norm_pack.cuh"
#include "kernels/batch_norm_strip.cuh"

namespace ampctl::kernels {

template <typename T, BatchNormForm kForm, int kSteps>
__device__ void normalise(const BatchNormApply& tensors, const Strip<kSteps>& strip, const Affine& affine) {
  constexpr bool kAdds = kForm == BatchNormForm::add_relu;
  ChannelPack<T> input[kSteps];
  ChannelPack<T> residual[kAdds ? kSteps : 1];
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    if (!strip.has(i)) continue;
    const unsigned pack = strip[i];
    input[i] = ChannelPack<T>::load(tensors.input, pack);
    if constexpr (kAdds) residual[i] = ChannelPack<T>::load(tensors.residual, pack);
  }
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    if (!strip.has(i)) continue;
    const unsigned pack = strip[i];
    float values[kBatchNormPack];
    input[i].unpack(values);
#pragma unroll
    for (int c = 0; c < kBatchNormPack; ++c) values[c] = affine(values[c], c);
    if constexpr (kAdds) {
      float added[kBatchNormPack];
      residual[i].unpack(added);
      unsigned positive = 0;
#pragma unroll
      for (int c = 0; c < kBatchNormPack; ++c) {
        values[c] += added[c];
        positive |= static_cast<unsigned>(passes_relu(values[c])) << c;
      }
      tensors.positive[pack] = static_cast<uint8_t>(positive);
    }
    if constexpr (kForm != BatchNormForm::plain) {
#pragma unroll
      for (int c = 0; c < kBatchNormPack; ++c) values[c] = passes_relu(values[c]) ? values[c] : 0.0F;
    }
    ChannelPack<T>::pack(values).store(tensors.output, pack);
  }
}

}  // namespace ampctl::kernels
