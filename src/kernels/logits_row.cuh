// How the threads of a softmax share a row of logits, which may begin at any element's address. C++17.
#pragma once

#include <cstdint>

#include "kernels/channel_word.cuh"

namespace ampctl::kernels {

constexpr int kRowVectorBytes = 16;

/// Elements [head, tail) of a row are 16-byte vectors; those before and behind are taken one by one.
struct RowCut {
  int head;
  int tail;
};

template <typename Element>
__device__ int misaligned_bytes(const Element* row) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(row) % kRowVectorBytes);
}

template <typename Element>
__device__ RowCut cut(const Element* row, int classes) {
  constexpr int kSize = sizeof(Element);
  const int head = min((kRowVectorBytes - misaligned_bytes(row)) % kRowVectorBytes / kSize, classes);
  return {head, classes - (classes - head) % (kRowVectorBytes / kSize)};
}

template <typename T>
__device__ float logit_at(const typename Word<T>::Element* row, int64_t column) {
  float lanes[Word<T>::kLanes];
  Word<T>::to_floats(row[column], lanes);
  return lanes[0];
}

/// Calls visit(column, x) for this thread's share of a row, x an array of one or of a vector's floats.
template <typename T, int kRowThreads, typename Visit>
__device__ void for_each_part(const typename Word<T>::Element* __restrict__ row, const RowCut& parts,
                              int classes, int thread, Visit visit) {
  constexpr int kWords = kRowVectorBytes / static_cast<int>(sizeof(uint32_t));
  constexpr int kLanes = kWords * Word<T>::kLanes;
  const auto visit_one = [&](int column) {
    const float x[1] = {logit_at<T>(row, column)};
    visit(column, x);
  };
  for (int column = thread; column < parts.head; column += kRowThreads) visit_one(column);
#pragma unroll 4
  for (int column = parts.head + thread * kLanes; column < parts.tail; column += kRowThreads * kLanes) {
    const uint4 vector = __ldg(reinterpret_cast<const uint4*>(row + column));
    const uint32_t words[kWords] = {vector.x, vector.y, vector.z, vector.w};
    float x[kLanes];
#pragma unroll
    for (int i = 0; i < kWords; ++i) Word<T>::to_floats(words[i], x + i * Word<T>::kLanes);
    visit(column, x);
  }
  for (int column = parts.tail + thread; column < classes; column += kRowThreads) visit_one(column);
}

/// What visit() makes of x, to the same columns of another row that is as aligned as this one.
template <typename T, int kCount>
__device__ void store(typename Word<T>::Element* to, const float (&values)[kCount]) {
  if constexpr (kCount == 1) {
    float lanes[Word<T>::kLanes] = {};
    lanes[0] = values[0];
    *to = static_cast<typename Word<T>::Element>(Word<T>::from_floats(lanes));
  } else {
    constexpr int kWordLanes = Word<T>::kLanes;
    static_assert(kCount == kRowVectorBytes / sizeof(uint32_t) * kWordLanes, "a whole vector");
    *reinterpret_cast<uint4*>(to) = make_uint4(
        Word<T>::from_floats(values), Word<T>::from_floats(values + kWordLanes),
        Word<T>::from_floats(values + 2 * kWordLanes), Word<T>::from_floats(values + 3 * kWordLanes));
  }
}

}  // namespace ampctl::kernels
