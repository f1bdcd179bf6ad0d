// What other threads may know of a trainer at any time.
#pragma once

#include <atomic>
#include <cstdint>

namespace ampctl::train {

struct Pulse {
  std::atomic<int64_t> steps{
      0};  ///< windows begun, evaluation rounds and saves: grows while there is progress
  std::atomic<bool> stopping{false};  ///< the trainer acts upon a request to stop: saves, then returns
};

}  // namespace ampctl::train
