#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/param_update_kernel.h"
#include "kernels/tensor_of_block.cuh"

namespace ampctl::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWidth = 4;  // elements that a thread loads at once
static_assert(kUpdateChunk % kWidth == 0, "chunks begin where vectors do");

// Both rules take the steps of PyTorch's fused kernels, in float32. Where SGD and Adam's coupled weight decay
// multiply and add in one operation is said here: PyTorch leaves it to the compiler, which fuses them in some
// of a thread's elements and not in others.

template <bool kHasMomentum>
class Sgd {
 public:
  using Constants = SgdConstants;
  static constexpr int kStates = kHasMomentum ? 1 : 0;

  __device__ Sgd(const SgdConstants& constants, const UpdatePointers& pointers, double weight_decay)
      : lr_(*pointers.lr),
        weight_decay_(static_cast<float>(weight_decay)),
        momentum_(static_cast<float>(constants.momentum)),
        undamped_(1 - static_cast<float>(constants.dampening)),
        nesterov_(constants.nesterov),
        // Without dampening a buffer of zeros gives the first step's value by itself.
        is_first_step_(constants.dampening != 0 && *pointers.step == 1.0F) {}

  __device__ void operator()(float& param, float grad, float* states) const {
    if (weight_decay_ != 0) grad = fmaf(weight_decay_, param, grad);
    if (kHasMomentum) {
      const float buffer = is_first_step_ ? grad : fmaf(undamped_, grad, __fmul_rn(momentum_, states[0]));
      states[0] = buffer;
      grad = nesterov_ ? fmaf(momentum_, buffer, grad) : buffer;
    }
    param = fmaf(-lr_, grad, param);
  }

 private:
  float lr_;
  float weight_decay_;
  float momentum_;
  float undamped_;
  bool nesterov_;
  bool is_first_step_;
};

template <bool kAmsgrad>
class Adam {
 public:
  using Constants = AdamConstants;
  static constexpr int kStates = kAmsgrad ? 3 : 2;

  __device__ Adam(const AdamConstants& constants, const UpdatePointers& pointers, double weight_decay)
      : lr_(*pointers.lr),
        weight_decay_(static_cast<float>(weight_decay)),
        beta1_(static_cast<float>(constants.beta1)),
        beta2_(static_cast<float>(constants.beta2)),
        eps_(static_cast<float>(constants.eps)),
        decoupled_(constants.decoupled_weight_decay),
        step_size_(lr_ / (1 - powf(beta1_, *pointers.step))),
        correction2_sqrt_(sqrtf(1 - powf(beta2_, *pointers.step))) {}

  __device__ void operator()(float& param, float grad, float* states) const {
    if (weight_decay_ != 0) {
      if (decoupled_) {
        param -= lr_ * weight_decay_ * param;
      } else {
        grad = fmaf(param, weight_decay_, grad);
      }
    }
    states[0] = fmaf(beta1_, states[0], fmaf(-beta1_, grad, grad));
    states[1] = fmaf(beta2_, states[1], fmaf(-beta2_, grad * grad, grad * grad));
    float second_moment = states[1];
    if (kAmsgrad) {
      // Not fmaxf: a NaN that is remembered stays.
      second_moment = states[2] < states[1] ? states[1] : states[2];
      states[2] = second_moment;
    }
    param -= step_size_ * states[0] / (sqrtf(second_moment) / correction2_sqrt_ + eps_);
  }

 private:
  float lr_;
  float weight_decay_;
  float beta1_;
  float beta2_;
  float eps_;
  bool decoupled_;
  float step_size_;
  float correction2_sqrt_;
};

template <typename T, int kSize>
struct alignas(kSize * sizeof(T)) Pack {
  T values[kSize];
};

template <int kSize, typename T>
__device__ Pack<T, kSize> load(const T* from, bool is_aligned) {
  if (is_aligned) return *reinterpret_cast<const Pack<T, kSize>*>(from);
  Pack<T, kSize> pack;
#pragma unroll
  for (int i = 0; i < kSize; ++i) pack.values[i] = from[i];
  return pack;
}

template <int kSize, typename T>
__device__ void store(T* to, const Pack<T, kSize>& pack, bool is_aligned) {
  if (is_aligned) {
    *reinterpret_cast<Pack<T, kSize>*>(to) = pack;
    return;
  }
#pragma unroll
  for (int i = 0; i < kSize; ++i) to[i] = pack.values[i];
}

__device__ void narrow(float value, __half& result) { result = __float2half_rn(value); }
__device__ void narrow(float value, __nv_bfloat16& result) { result = __float2bfloat16_rn(value); }

template <typename T, int kSize>
__device__ void store_copy(void* copy, int64_t index, const Pack<float, kSize>& param, bool is_aligned) {
  Pack<T, kSize> pack;
#pragma unroll
  for (int i = 0; i < kSize; ++i) narrow(param.values[i], pack.values[i]);
  store<kSize>(static_cast<T*>(copy) + index, pack, is_aligned);
}

template <int kSize, class Rule>
__device__ void update(const Rule& rule, const UpdateTensor& tensor, float grad_scale, int64_t index,
                       bool is_aligned) {
  constexpr int kStates = Rule::kStates;
  constexpr int kStatePacks = kStates == 0 ? 1 : kStates;  // there are no arrays of nothing
  Pack<float, kSize> param = load<kSize>(tensor.param + index, is_aligned);
  Pack<float, kSize> grad = load<kSize>(tensor.grad + index, is_aligned);
  Pack<float, kSize> states[kStatePacks];
#pragma unroll
  for (int s = 0; s < kStates; ++s) states[s] = load<kSize>(tensor.states[s] + index, is_aligned);
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    float element_states[kStatePacks];
#pragma unroll
    for (int s = 0; s < kStates; ++s) element_states[s] = states[s].values[i];
    rule(param.values[i], grad.values[i] / grad_scale, element_states);
#pragma unroll
    for (int s = 0; s < kStates; ++s) states[s].values[i] = element_states[s];
  }
  store<kSize>(tensor.param + index, param, is_aligned);
#pragma unroll
  for (int s = 0; s < kStates; ++s) store<kSize>(tensor.states[s] + index, states[s], is_aligned);
  if (tensor.copy_type == CopyType::float16) {
    store_copy<__half>(tensor.copy, index, param, is_aligned);
  } else if (tensor.copy_type == CopyType::bfloat16) {
    store_copy<__nv_bfloat16>(tensor.copy, index, param, is_aligned);
  }
}

template <int kStates>
__device__ bool has_aligned_vectors(const UpdateTensor& tensor) {
  uintptr_t bits = reinterpret_cast<uintptr_t>(tensor.param) | reinterpret_cast<uintptr_t>(tensor.grad);
#pragma unroll
  for (int s = 0; s < kStates; ++s) bits |= reinterpret_cast<uintptr_t>(tensor.states[s]);
  return bits % (kWidth * sizeof(float)) == 0 &&
         reinterpret_cast<uintptr_t>(tensor.copy) % (kWidth * sizeof(__half)) == 0;
}

template <class Rule>
__global__ void __launch_bounds__(kThreads)
    update_kernel(const __grid_constant__ UpdateTensors tensors, const typename Rule::Constants constants,
                  const UpdatePointers pointers) {
  if (pointers.found_inf != nullptr && *pointers.found_inf == 1.0F) return;
  const UpdateTensor& tensor = tensor_of_block(tensors);
  const Rule rule(constants, pointers, tensor.weight_decay);
  const float grad_scale = pointers.grad_scale == nullptr ? 1.0F : *pointers.grad_scale;
  const int64_t begin = (static_cast<int64_t>(blockIdx.x) - tensor.first_block) * kUpdateChunk;
  const int64_t left = tensor.numel - begin;
  const int size = left < kUpdateChunk ? static_cast<int>(left) : kUpdateChunk;
  const int whole = size / kWidth * kWidth;
  const bool is_aligned = has_aligned_vectors<Rule::kStates>(tensor);
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread * kWidth; i < whole; i += kThreads * kWidth) {
    update<kWidth>(rule, tensor, grad_scale, begin + i, is_aligned);
  }
  if (whole + thread < size) update<1>(rule, tensor, grad_scale, begin + whole + thread, true);
}

template <class Rule>
cudaError_t launch(const UpdateTensors& tensors, const typename Rule::Constants& constants,
                   const UpdatePointers& pointers, cudaStream_t stream) {
  update_kernel<Rule><<<tensors.blocks, kThreads, 0, stream>>>(tensors, constants, pointers);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_sgd_update(const UpdateTensors& tensors, const SgdConstants& constants,
                              const UpdatePointers& pointers, cudaStream_t stream) {
  return constants.momentum == 0 ? launch<Sgd<false>>(tensors, constants, pointers, stream)
                                 : launch<Sgd<true>>(tensors, constants, pointers, stream);
}

cudaError_t launch_adam_update(const UpdateTensors& tensors, const AdamConstants& constants, bool amsgrad,
                               const UpdatePointers& pointers, cudaStream_t stream) {
  return amsgrad ? launch<Adam<true>>(tensors, constants, pointers, stream)
                 : launch<Adam<false>>(tensors, constants, pointers, stream);
}

}  // namespace ampctl::kernels
