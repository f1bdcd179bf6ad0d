#include <algorithm>
#include <array>
#include <string_view>

#include "config/load.h"

namespace ampctl::config {

bool may_change_on_resume(const std::string& key) {
  // Micro-batch, accumulation and processes may change where the global batch, compared as well, stays.
  constexpr std::array<std::string_view, 21> kFree{
      "train.epochs",
      "train.steps",
      "train.num_threads",
      "train.activation_checkpointing",
      "train.gradient_accumulation_steps",
      "data.batch_size",
      "data.num_workers",
      "data.prefetch_factor",
      "data.pin_memory",
      "eval",
      "distributed.world_size",
      "distributed.strategy",
      "distributed.backend",
      "distributed.timeout",
      "distributed.bucket_cap_mb",
      "distributed.gradient_as_bucket_view",
      "distributed.broadcast_buffers",
      "distributed.find_unused_parameters",
      "checkpoint",
      "log",
      "output",
  };
  return std::ranges::any_of(kFree, [&key](std::string_view free) {
    return key == free || (key.starts_with(free) && key.size() > free.size() && key[free.size()] == '.');
  });
}

}  // namespace ampctl::config
