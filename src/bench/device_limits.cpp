#include "bench/device_limits.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>

#include "base/units.h"
#include "bench/blocks.h"

namespace ampctl::bench {
namespace {

/// Large enough to reach the device's best, small enough to take no time.
struct Sizes {
  int64_t matrix;      // rows and columns
  int64_t copy_bytes;  // beyond any cache
  int repetitions;
};

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr Sizes kGpu{8192, 1024 * kMiB, 10};
constexpr Sizes kCpu{512, 128 * kMiB, 5};
// CPUs multiply some types thousands of times slower than others.
constexpr double kLongEnough = 0.5;

// As the configuration calls them.
std::string name_of(c10::ScalarType dtype) {
  if (dtype == c10::kHalf) return "float16";
  return dtype == c10::kBFloat16 ? "bfloat16" : "float32";
}

// The best of several: a limit is what nothing else disturbed.
double best_seconds(c10::Device device, int repetitions, const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  work();
  synchronize(device);
  double best = 0.0;
  double total = 0.0;
  for (int i = 0; i < repetitions && total < kLongEnough; ++i) {
    const auto start = Clock::now();
    work();
    synchronize(device);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = i == 0 ? seconds : std::min(best, seconds);
    total += seconds;
  }
  return best;
}

}  // namespace

DeviceLimits measure_limits(c10::Device device, c10::ScalarType dtype) {
  const at::NoGradGuard no_grad;
  const Sizes& sizes = device.is_cpu() ? kCpu : kGpu;
  const int64_t n = sizes.matrix;
  DeviceLimits limits;
  {
    const auto options = at::TensorOptions().device(device).dtype(dtype);
    // Zeros would draw less power and flatter a card at its power limit.
    const at::Tensor a = at::randn({n, n}, options);
    const at::Tensor b = at::randn({n, n}, options);
    at::Tensor product = at::empty({n, n}, options);
    const double seconds = best_seconds(device, sizes.repetitions, [&] { at::mm_out(product, a, b); });
    const auto side = static_cast<double>(n);
    limits.flops_per_second = 2.0 * side * side * side / seconds;
  }
  {
    const auto options = at::TensorOptions().device(device).dtype(at::kByte);
    const at::Tensor from = at::empty({sizes.copy_bytes}, options);
    const at::Tensor to = at::empty({sizes.copy_bytes}, options);
    const double seconds = best_seconds(device, sizes.repetitions, [&] { to.copy_(from); });
    limits.bytes_per_second = 2.0 * static_cast<double>(sizes.copy_bytes) / seconds;
  }
  const std::string side = std::to_string(n);
  limits.product = side + " x " + side + " x " + side + " " + name_of(dtype);
  limits.copy = format_bytes(static_cast<uint64_t>(sizes.copy_bytes));
  return limits;
}

}  // namespace ampctl::bench
