// A counter-based generator in integer arithmetic only: the same numbers with every compiler and standard
// library, from nothing but a seed and a few keys.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace ampctl::data {

/// Uses that never share numbers.
enum class Stream : int64_t { order = 1, split, targets, pixels, augmentation, step };

/// SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
class Random {
 public:
  /// The published generator, started at `state`.
  explicit Random(uint64_t state) : state_(state) {}

  /// A stream of its own for each (seed, stream, a, b), whatever was drawn from others.
  Random(int64_t seed, Stream stream, int64_t a = 0, int64_t b = 0) : state_(unsigned_of(seed)) {
    for (const int64_t key : {static_cast<int64_t>(stream), a, b}) {
      state_ = mix(state_ + kGamma) ^ mix(unsigned_of(key) + kGamma);
    }
  }

  uint64_t next() {
    state_ += kGamma;
    return mix(state_);
  }

  /// Uniform in [0, bound), without bias: draws from the incomplete last interval are thrown away.
  /// bound >= 1.
  int64_t below(int64_t bound) {
    const uint64_t range = unsigned_of(bound);
    const uint64_t incomplete = (0 - range) % range;
    uint64_t value = next();
    while (value < incomplete) value = next();
    return static_cast<int64_t>(value % range);
  }

  /// Uniform in [0, 1), a multiple of 2^-53.
  double uniform() {
    constexpr int kDroppedBits = 11;
    constexpr double kStep = 0x1.0p-53;
    return static_cast<double>(next() >> kDroppedBits) * kStep;
  }

  double uniform(double from, double to) { return from + (to - from) * uniform(); }

 private:
  static constexpr uint64_t kGamma = 0x9E3779B97F4A7C15;

  static uint64_t unsigned_of(int64_t value) { return static_cast<uint64_t>(value); }

  static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

}  // namespace ampctl::data
