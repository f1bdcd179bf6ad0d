#include "bench/device_limits.h"

#include <ATen/Context.h>

#include "support/catch.h"
#include "support/skip.h"

using ampctl::bench::measure_limits;

TEST_CASE("A CPU's limits are plausible and say what was measured") {
  const auto limits = measure_limits(c10::kCPU, c10::kFloat);
  // Between a slow core and the fastest server.
  CHECK(limits.flops_per_second > 1e8);
  CHECK(limits.flops_per_second < 1e14);
  CHECK(limits.bytes_per_second > 1e8);
  CHECK(limits.bytes_per_second < 5e12);
  CHECK(limits.product == "512 x 512 x 512 float32");
  CHECK(limits.copy == "128.0 MiB");
}

TEST_CASE("On a GPU with tensor cores float16 products are faster than float32's", "[gpu]") {
  if (!at::hasCUDA()) return ampctl::test::skip("there is no GPU");
  const c10::Device device(c10::kCUDA, 0);
  const auto half = measure_limits(device, c10::kHalf);
  CHECK(half.flops_per_second > 2.0 * measure_limits(device, c10::kFloat).flops_per_second);
  CHECK(half.bytes_per_second > 1e11);
}
