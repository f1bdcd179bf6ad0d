// The packs that a thread works on together, all of the same channels. C++17.
#pragma once

namespace ampctl::kernels {

/// Up to kSteps packs of a tensor: first, first + stride, ... before end.
template <int kSteps>
struct Strip {
  unsigned first;
  unsigned stride;
  unsigned end;

  __device__ unsigned operator[](int i) const { return first + i * stride; }
  __device__ bool has(int i) const { return (*this)[i] < end; }
};

}  // namespace ampctl::kernels
