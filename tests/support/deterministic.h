// Algorithms that give the same bits in every run, on the GPU too.
#pragma once

#include "amp/precision.h"

namespace ampctl::test {

/// While it exists.
class Deterministic {
 public:
  Deterministic() { set(true); }
  ~Deterministic() { set(false); }
  Deterministic(const Deterministic&) = delete;
  Deterministic& operator=(const Deterministic&) = delete;

 private:
  static void set(bool deterministic) {
    amp::apply({/*allow_tf32=*/false, /*cudnn_benchmark=*/false, deterministic});
  }
};

}  // namespace ampctl::test
