// A target out of range ends a kernel of PyTorch's in release builds too, and so it does here.
#undef NDEBUG
#include <cassert>

#include <cuda_runtime.h>

#include "kernels/logits_row.cuh"
#include "kernels/softmax_cross_entropy_kernel.h"

namespace ampctl::kernels {
namespace {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffU;

// A row is worked on by a warp, or from kWideRow classes on by a block.
constexpr int kWideRow = 2048;
constexpr int kWarpsABlock = 4;
constexpr int kWideThreads = 512;

template <int kRowThreads>
constexpr int kRowsABlock = kRowThreads == kWarp ? kWarpsABlock : 1;

// What a row's logits amount to: the largest, the sum of exp(x - largest), the sum of x - shift.
struct RowSums {
  float largest = -INFINITY;
  float exponentials = 0.0F;
  float offsets = 0.0F;
};

// exp(-inf - -inf) would be NaN, where a part of a row has no chance at all.
__device__ float finite_base(float largest) { return largest == -INFINITY ? 0.0F : largest; }

// fmaxf passes over NaNs; they reach the sums.
template <int kCount>
__device__ void add(RowSums& sums, const float (&x)[kCount], float shift) {
  float largest = sums.largest;
#pragma unroll
  for (int i = 0; i < kCount; ++i) largest = fmaxf(largest, x[i]);
  const float base = finite_base(largest);
  float exponentials = sums.exponentials * expf(sums.largest - base);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    exponentials += expf(x[i] - base);
    sums.offsets += x[i] - shift;
  }
  sums.exponentials = exponentials;
  sums.largest = largest;
}

__device__ RowSums joined(const RowSums& a, const RowSums& b) {
  RowSums sums;
  sums.largest = fmaxf(a.largest, b.largest);
  const float base = finite_base(sums.largest);
  sums.exponentials = a.exponentials * expf(a.largest - base) + b.exponentials * expf(b.largest - base);
  sums.offsets = a.offsets + b.offsets;
  return sums;
}

// The sums of all threads of a row in the row's first thread, always in the same order.
template <int kRowThreads>
__device__ RowSums row_total(RowSums sums) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    RowSums other;
    other.largest = __shfl_down_sync(kAllLanes, sums.largest, offset);
    other.exponentials = __shfl_down_sync(kAllLanes, sums.exponentials, offset);
    other.offsets = __shfl_down_sync(kAllLanes, sums.offsets, offset);
    sums = joined(sums, other);
  }
  if constexpr (kRowThreads > kWarp) {
    constexpr int kWarps = kRowThreads / kWarp;
    __shared__ float parts[3][kWarps];
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    if (threadIdx.x % kWarp == 0) {
      parts[0][warp] = sums.largest;
      parts[1][warp] = sums.exponentials;
      parts[2][warp] = sums.offsets;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int i = 1; i < kWarps; ++i) sums = joined(sums, {parts[0][i], parts[1][i], parts[2][i]});
    }
  }
  return sums;
}

template <typename T, int kRowThreads>
__global__ void __launch_bounds__(kRowThreads* kRowsABlock<kRowThreads>)
    forward_kernel(const CrossEntropyRows rows, float* __restrict__ losses,
                   float2* __restrict__ normalizers) {
  const int thread = static_cast<int>(threadIdx.x) % kRowThreads;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kRowsABlock<kRowThreads> +
                        static_cast<int>(threadIdx.x) / kRowThreads;
  if (index >= rows.rows) return;
  const int64_t target = rows.targets[index];
  if (target == rows.ignore_index) {
    if (thread == 0) {
      losses[index] = 0.0F;
      normalizers[index] = make_float2(0.0F, 0.0F);
    }
    return;
  }
  assert(target >= 0 && target < rows.classes && "targets are classes or ignore_index");
  const auto* row = static_cast<const typename Word<T>::Element*>(rows.logits) + index * rows.classes;
  const float target_logit = logit_at<T>(row, target);
  // Sums of differences stay small when all logits are large.
  const float shift = isfinite(target_logit) ? target_logit : 0.0F;
  RowSums sums;
  for_each_part<T, kRowThreads>(row, cut(row, rows.classes), rows.classes, thread,
                                [&](int /*column*/, const auto& x) { add(sums, x, shift); });
  sums = row_total<kRowThreads>(sums);
  if (thread != 0) return;
  const float log_sum = logf(sums.exponentials);
  float loss = sums.largest - target_logit + log_sum;
  if (rows.label_smoothing > 0.0F) {
    const float mean = sums.largest - shift + log_sum - sums.offsets / static_cast<float>(rows.classes);
    loss = (1.0F - rows.label_smoothing) * loss + rows.label_smoothing * mean;
  }
  losses[index] = loss;
  normalizers[index] = make_float2(sums.largest, log_sum);
}

template <typename T, int kRowThreads>
__global__ void __launch_bounds__(kRowThreads* kRowsABlock<kRowThreads>)
    backward_kernel(const CrossEntropyRows rows, const float* __restrict__ grad_output,
                    const float2* __restrict__ normalizers,
                    typename Word<T>::Element* __restrict__ grad_logits) {
  const int thread = static_cast<int>(threadIdx.x) % kRowThreads;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kRowsABlock<kRowThreads> +
                        static_cast<int>(threadIdx.x) / kRowThreads;
  if (index >= rows.rows) return;
  const int64_t target = rows.targets[index];
  const int64_t begin = index * rows.classes;
  auto* grad_row = grad_logits + begin;
  if (target == rows.ignore_index) {
    for (int column = thread; column < rows.classes; column += kRowThreads) grad_row[column] = 0;
    return;
  }
  const auto* row = static_cast<const typename Word<T>::Element*>(rows.logits) + begin;
  const float2 normalizer = normalizers[index];
  const float grad = *grad_output;
  const float spread = rows.label_smoothing / static_cast<float>(rows.classes);
  const float target_share = 1.0F - rows.label_smoothing;
  const bool is_vector = misaligned_bytes(row) == misaligned_bytes(grad_row);
  const RowCut parts = is_vector ? cut(row, rows.classes) : RowCut{rows.classes, rows.classes};
  for_each_part<T, kRowThreads>(row, parts, rows.classes, thread, [&](int column, const auto& x) {
    constexpr int kCount = sizeof(x) / sizeof(float);
    float dx[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float softmax = expf(x[i] - normalizer.x - normalizer.y);
      const float wanted = spread + (column + i == target ? target_share : 0.0F);
      dx[i] = grad * (softmax - wanted);
    }
    store<T>(grad_row + column, dx);
  });
}

template <int kRowThreads>
unsigned blocks(const CrossEntropyRows& rows) {
  constexpr int kRows = kRowsABlock<kRowThreads>;
  return static_cast<unsigned>((rows.rows + kRows - 1) / kRows);
}

template <typename T, int kRowThreads>
void forward(const CrossEntropyRows& rows, float* losses, float* normalizers, cudaStream_t stream) {
  forward_kernel<T, kRowThreads>
      <<<blocks<kRowThreads>(rows), kRowThreads * kRowsABlock<kRowThreads>, 0, stream>>>(
          rows, losses, reinterpret_cast<float2*>(normalizers));
}

template <typename T>
void forward(const CrossEntropyRows& rows, float* losses, float* normalizers, cudaStream_t stream) {
  if (rows.classes < kWideRow) {
    forward<T, kWarp>(rows, losses, normalizers, stream);
  } else {
    forward<T, kWideThreads>(rows, losses, normalizers, stream);
  }
}

template <typename T, int kRowThreads>
void backward(const CrossEntropyRows& rows, const float* grad_output, const float* normalizers,
              void* grad_logits, cudaStream_t stream) {
  backward_kernel<T, kRowThreads>
      <<<blocks<kRowThreads>(rows), kRowThreads * kRowsABlock<kRowThreads>, 0, stream>>>(
          rows, grad_output, reinterpret_cast<const float2*>(normalizers),
          static_cast<typename Word<T>::Element*>(grad_logits));
}

template <typename T>
void backward(const CrossEntropyRows& rows, const float* grad_output, const float* normalizers,
              void* grad_logits, cudaStream_t stream) {
  if (rows.classes < kWideRow) {
    backward<T, kWarp>(rows, grad_output, normalizers, grad_logits, stream);
  } else {
    backward<T, kWideThreads>(rows, grad_output, normalizers, grad_logits, stream);
  }
}

template <typename T>
struct TypeTag {
  using Type = T;
};

template <typename Launch>
cudaError_t launch_for(const CrossEntropyRows& rows, Launch launch) {
  if (rows.rows == 0) return cudaSuccess;
  switch (rows.type) {
    case LogitsType::float32:
      launch(TypeTag<float>{});
      break;
    case LogitsType::float16:
      launch(TypeTag<__half>{});
      break;
    case LogitsType::bfloat16:
      launch(TypeTag<__nv_bfloat16>{});
      break;
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_cross_entropy_forward(const CrossEntropyRows& rows, float* losses, float* normalizers,
                                         cudaStream_t stream) {
  return launch_for(
      rows, [&](auto tag) { forward<typename decltype(tag)::Type>(rows, losses, normalizers, stream); });
}

cudaError_t launch_cross_entropy_backward(const CrossEntropyRows& rows, const float* grad_output,
                                          const float* normalizers, void* grad_logits, cudaStream_t stream) {
  return launch_for(rows, [&](auto tag) {
    backward<typename decltype(tag)::Type>(rows, grad_output, normalizers, grad_logits, stream);
  });
}

}  // namespace ampctl::kernels
