#include <cuda_runtime.h>

#include "kernels/global_avg_pool_kernel.h"
#include "kernels/max_pool_piece.cuh"

namespace ampctl::kernels {
namespace {

constexpr int kThreads = 256;
// Backward's pixels are shared out among so many blocks, to have enough of them at small batches.
constexpr int kPixelBlocks = 8;

// The channels of an image that a thread works on; a thread beyond the last has none.
template <typename T, bool kVector>
struct ThreadChannels {
  int64_t image;
  int channel;

  __device__ explicit ThreadChannels(const ChannelMeans& shape) {
    const int pieces = shape.channels / Piece<T, kVector>::kChannels;
    const int64_t item = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    image = item / pieces;
    channel = static_cast<int>(item - image * pieces) * Piece<T, kVector>::kChannels;
  }
  static unsigned blocks(const ChannelMeans& shape) {
    const int64_t items = shape.images * (shape.channels / Piece<T, kVector>::kChannels);
    return static_cast<unsigned>((items + kThreads - 1) / kThreads);
  }
};

template <typename T, bool kVector>
__device__ void to_floats(const Piece<T, kVector>& piece, float* values) {
#pragma unroll
  for (int i = 0; i < Piece<T, kVector>::kWords; ++i) {
    Word<T>::to_floats(piece.words[i], values + i * Word<T>::kLanes);
  }
}

template <typename T, bool kVector>
__device__ Piece<T, kVector> scaled(const float* values, float factor) {
  using P = Piece<T, kVector>;
  float products[P::kLanes];
#pragma unroll
  for (int i = 0; i < P::kLanes; ++i) products[i] = values[i] * factor;
  P piece;
#pragma unroll
  for (int i = 0; i < P::kWords; ++i) piece.words[i] = Word<T>::from_floats(products + i * Word<T>::kLanes);
  return piece;
}

template <typename T, bool kVector>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const ChannelMeans shape, const typename Word<T>::Element* __restrict__ input,
                   typename Word<T>::Element* __restrict__ means) {
  using P = Piece<T, kVector>;
  const ThreadChannels<T, kVector> place(shape);
  if (place.image >= shape.images) return;
  const auto* pixels = input + place.image * shape.pixels * shape.channels + place.channel;
  float sums[P::kLanes] = {};
#pragma unroll 8
  for (int pixel = 0; pixel < shape.pixels; ++pixel) {
    float x[P::kLanes];
    to_floats(P::load(pixels + pixel * shape.channels), x);
#pragma unroll
    for (int i = 0; i < P::kLanes; ++i) sums[i] += x[i];
  }
  scaled<T, kVector>(sums, 1.0F / static_cast<float>(shape.pixels))
      .store(means + place.image * shape.channels + place.channel);
}

template <typename T, bool kVector>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(const ChannelMeans shape, const typename Word<T>::Element* __restrict__ grad_means,
                    typename Word<T>::Element* __restrict__ grad_input) {
  using P = Piece<T, kVector>;
  const ThreadChannels<T, kVector> place(shape);
  if (place.image >= shape.images) return;
  float dy[P::kLanes];
  to_floats(P::load(grad_means + place.image * shape.channels + place.channel), dy);
  const P dx = scaled<T, kVector>(dy, 1.0F / static_cast<float>(shape.pixels));
  auto* pixels = grad_input + place.image * shape.pixels * shape.channels + place.channel;
  for (int pixel = static_cast<int>(blockIdx.y); pixel < shape.pixels; pixel += kPixelBlocks) {
    dx.store(pixels + pixel * shape.channels);
  }
}

bool is_vector(const ChannelMeans& shape, const void* a, const void* b) {
  const auto together = reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b);
  const int channels = shape.type == MeanType::float32 ? kVectorBytes / 4 : kVectorBytes / 2;
  return shape.channels % channels == 0 && together % kVectorBytes == 0;
}

template <typename T, bool kVector>
void forward(const ChannelMeans& shape, const void* input, void* means, cudaStream_t stream) {
  using Element = typename Word<T>::Element;
  const unsigned blocks = ThreadChannels<T, kVector>::blocks(shape);
  forward_kernel<T, kVector><<<blocks, kThreads, 0, stream>>>(shape, static_cast<const Element*>(input),
                                                              static_cast<Element*>(means));
}

template <typename T, bool kVector>
void backward(const ChannelMeans& shape, const void* grad_means, void* grad_input, cudaStream_t stream) {
  using Element = typename Word<T>::Element;
  const dim3 blocks(ThreadChannels<T, kVector>::blocks(shape), kPixelBlocks);
  backward_kernel<T, kVector><<<blocks, kThreads, 0, stream>>>(shape, static_cast<const Element*>(grad_means),
                                                               static_cast<Element*>(grad_input));
}

template <typename T>
struct TypeTag {
  using Type = T;
};

template <typename Launch>
cudaError_t launch_for(const ChannelMeans& shape, Launch launch) {
  if (shape.images == 0 || shape.channels == 0) return cudaSuccess;
  switch (shape.type) {
    case MeanType::float32:
      launch(TypeTag<float>{});
      break;
    case MeanType::float16:
      launch(TypeTag<__half>{});
      break;
    case MeanType::bfloat16:
      launch(TypeTag<__nv_bfloat16>{});
      break;
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_channel_means(const ChannelMeans& shape, const void* input, void* means,
                                 cudaStream_t stream) {
  return launch_for(shape, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    is_vector(shape, input, means) ? forward<T, true>(shape, input, means, stream)
                                   : forward<T, false>(shape, input, means, stream);
  });
}

cudaError_t launch_channel_means_backward(const ChannelMeans& shape, const void* grad_means, void* grad_input,
                                          cudaStream_t stream) {
  return launch_for(shape, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    is_vector(shape, grad_means, grad_input) ? backward<T, true>(shape, grad_means, grad_input, stream)
                                             : backward<T, false>(shape, grad_means, grad_input, stream);
  });
}

}  // namespace ampctl::kernels
