// What the loader hands to the step.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace ampctl::data {

/// A micro-batch on the training device.
struct Batch {
  at::Tensor images;     ///< (N, C, H, W) float32, float16 or bfloat16 as asked, contiguous or channels_last;
                         ///< undefined when N is 0
  at::Tensor targets;    ///< (N) int64
  int64_t size = 0;      ///< N; less than asked for at an epoch's end or where corrupt samples were skipped,
                         ///< 0 where all of a batch were
  int64_t consumed = 0;  ///< samples of the epoch's order that this batch used up, skipped ones included
  int64_t corrupt = 0;   ///< samples left out because their file is damaged (on_corrupt: skip)
  double wait_seconds = 0.0;  ///< how long next() waited for it to be decoded
};

}  // namespace ampctl::data
