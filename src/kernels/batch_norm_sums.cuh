// Two sums a channel over the rows of a matrix, or several such pairs, in a fixed order. C++17.
//
// A block sums a group of channels over a slice of the rows and leaves its partial sums; the group's block
// that finishes last puts all slices together.
#pragma once

#include <cstdint>

#include "kernels/batch_norm_kernel.h"
#include "kernels/batch_norm_slices.cuh"

namespace ampctl::kernels {

struct GroupSums {
  float2 values[kSumWarps][kBatchNormGroup];

  // For the first kBatchNormGroup threads: the sums of channel threadIdx.x.
  __device__ float2 total() const {
    __syncthreads();
    float2 sum = make_float2(0.0F, 0.0F);
    if (threadIdx.x < kBatchNormGroup) {
#pragma unroll
      for (const auto& warp : values) {
        sum.x += warp[threadIdx.x].x;
        sum.y += warp[threadIdx.x].y;
      }
    }
    __syncthreads();
    return sum;
  }
};

/// Adds up what the block's threads hold; the result as GroupSums::total.
__device__ inline float2 block_sums(GroupSums& shared, float (&first)[kBatchNormPack],
                                    float (&second)[kBatchNormPack]) {
  const unsigned lane = threadIdx.x % kWarp;
#pragma unroll
  for (int offset = kGroupPacks; offset < kWarp; offset *= 2) {
#pragma unroll
    for (int c = 0; c < kBatchNormPack; ++c) {
      first[c] += __shfl_xor_sync(~0U, first[c], offset);
      second[c] += __shfl_xor_sync(~0U, second[c], offset);
    }
  }
  if (lane < kGroupPacks) {
    auto* values = shared.values[threadIdx.x / kWarp] + lane * kBatchNormPack;
#pragma unroll
    for (int c = 0; c < kBatchNormPack; ++c) values[c] = make_float2(first[c], second[c]);
  }
  return shared.total();
}

__device__ inline float2* partials_of(float* partials, unsigned slice, unsigned pair = 0) {
  const unsigned group = pair * gridDim.x + blockIdx.x;
  return reinterpret_cast<float2*>(partials) + (group * gridDim.y + slice) * kBatchNormGroup;
}

/// Leaves the block's partial sums, of which the first kBatchNormGroup threads hold a channel each. True in
/// the group's last block, which then sees those of all slices.
template <unsigned kPairs>
__device__ bool leave_partials(const BatchNormScratch& scratch, const float2 (&sums)[kPairs]) {
  __shared__ bool is_last;
  if (threadIdx.x < kBatchNormGroup) {
#pragma unroll
    for (unsigned pair = 0; pair < kPairs; ++pair) {
      __stcg(partials_of(scratch.partials, blockIdx.y, pair) + threadIdx.x, sums[pair]);
    }
    __threadfence();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned* ticket = scratch.tickets + blockIdx.x;
    is_last = atomicAdd(ticket, 1U) == gridDim.y - 1;
    if (is_last) *ticket = 0;
    __threadfence();
  }
  __syncthreads();
  return is_last;
}

__device__ inline bool leave_partials(const BatchNormScratch& scratch, float2 sums) {
  const float2 one[] = {sums};
  return leave_partials(scratch, one);
}

/// Puts the slices of one pair together: `add(sums, partial, slice, channel)` for each, in a fixed order; the
/// result as GroupSums::total.
template <typename Add>
__device__ float2 sum_slices(GroupSums& shared, const BatchNormScratch& scratch, Add add, unsigned pair = 0) {
  constexpr int kChannels = 2;  // 16 bytes of partial sums a lane
  const unsigned warp = threadIdx.x / kWarp;
  const unsigned channel = threadIdx.x % kWarp * kChannels;
  float2 sums[kChannels] = {};
#pragma unroll 8
  for (unsigned slice = warp; slice < gridDim.y; slice += kSumWarps) {
    const auto* from = partials_of(scratch.partials, slice, pair) + channel;
    const float4 partial = __ldcg(reinterpret_cast<const float4*>(from));
    add(sums[0], make_float2(partial.x, partial.y), slice, channel);
    add(sums[1], make_float2(partial.z, partial.w), slice, channel + 1);
  }
#pragma unroll
  for (int c = 0; c < kChannels; ++c) shared.values[warp][channel + c] = sums[c];
  return shared.total();
}

/// The same where the slices' sums are just added.
__device__ inline float2 add_slices(GroupSums& shared, const BatchNormScratch& scratch, unsigned pair = 0) {
  const auto add = [](float2& sum, const float2& partial, unsigned /*slice*/, unsigned /*channel*/) {
    sum.x += partial.x;
    sum.y += partial.y;
  };
  return sum_slices(shared, scratch, add, pair);
}

}  // namespace ampctl::kernels
