// Which of a launch's tensors a block works on. C++17.
#pragma once

#include <cuda_runtime.h>

namespace ampctl::kernels {

/// The one whose chunk this block has: `list.tensors[i].first_block` rises, from 0 on, over `list.count`
/// tensors.
template <typename List>
__device__ const auto& tensor_of_block(const List& list) {
  const int block = static_cast<int>(blockIdx.x);
  int begin = 0;
  int end = list.count;
  while (end - begin > 1) {
    const int middle = (begin + end) / 2;
    if (list.tensors[middle].first_block <= block) {
      begin = middle;
    } else {
      end = middle;
    }
  }
  return list.tensors[begin];
}

}  // namespace ampctl::kernels
