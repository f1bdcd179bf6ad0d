// One or two channels of a pixel in a 32-bit word, the unit that GPUs compare and select. C++17.
#pragma once

#include <cstdint>
#include <cstring>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace ampctl::kernels {

template <typename To, typename From>
__device__ To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

/// `kLanes` channels of type T; Element is one as raw bits. wins() has all bits of a lane set where `value`
/// replaces `best`.
template <typename T>
struct Word;

template <>
struct Word<float> {
  using Element = uint32_t;
  static constexpr int kLanes = 1;
  static constexpr uint32_t kLowest = 0xff800000U;

  static __device__ uint32_t wins(uint32_t value, uint32_t best) {
    const float x = bit_cast<float>(value);
    return x > bit_cast<float>(best) || isnan(x) ? ~0U : 0U;
  }
  static __device__ void to_floats(uint32_t word, float* values) { values[0] = bit_cast<float>(word); }
  static __device__ uint32_t from_floats(const float* values) { return bit_cast<uint32_t>(values[0]); }
};

template <>
struct Word<__half> {
  using Element = uint16_t;
  static constexpr int kLanes = 2;
  static constexpr uint32_t kLowest = 0xfc00fc00U;

  static __device__ uint32_t wins(uint32_t value, uint32_t best) {
    const auto x = bit_cast<__half2>(value);
    return __hgt2_mask(x, bit_cast<__half2>(best)) | __hneu2_mask(x, x);
  }
  static __device__ void to_floats(uint32_t word, float* values) {
    const float2 pair = __half22float2(bit_cast<__half2>(word));
    values[0] = pair.x;
    values[1] = pair.y;
  }
  static __device__ uint32_t from_floats(const float* values) {
    return bit_cast<uint32_t>(__floats2half2_rn(values[0], values[1]));
  }
};

template <>
struct Word<__nv_bfloat16> {
  using Element = uint16_t;
  static constexpr int kLanes = 2;
  static constexpr uint32_t kLowest = 0xff80ff80U;

  static __device__ uint32_t wins(uint32_t value, uint32_t best) {
    const auto x = bit_cast<__nv_bfloat162>(value);
    return __hgt2_mask(x, bit_cast<__nv_bfloat162>(best)) | __hneu2_mask(x, x);
  }
  static __device__ void to_floats(uint32_t word, float* values) {
    const float2 pair = __bfloat1622float2(bit_cast<__nv_bfloat162>(word));
    values[0] = pair.x;
    values[1] = pair.y;
  }
  static __device__ uint32_t from_floats(const float* values) {
    return bit_cast<uint32_t>(__floats2bfloat162_rn(values[0], values[1]));
  }
};

}  // namespace ampctl::kernels
