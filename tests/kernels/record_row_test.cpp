#include "kernels/record_row.h"

#include <cmath>
#include <vector>

#include <ATen/ATen.h>

#include "support/devices.h"

using namespace ampctl;

namespace {

void check_equals_composition(c10::Device device) {
  const at::TensorOptions options(device);
  const std::vector<at::Tensor> values{
      at::full({}, 1.5, options.dtype(at::kDouble)), at::full({}, 2.5, options.dtype(at::kFloat)),
      at::full({}, int64_t{1} << 40, options.dtype(at::kLong)), at::full({}, -4, options.dtype(at::kInt)),
      at::full({}, true, options.dtype(at::kBool))};
  const at::Tensor nonfinite = at::arange(300, options.dtype(at::kLong)).remainder(3).eq(0).to(at::kByte);
  std::vector<std::vector<at::Tensor>> results;
  for (const auto record : {&kernels::record_row_, &kernels::record_row_reference_}) {
    at::Tensor rows = at::zeros({3, 6}, options.dtype(at::kDouble));
    at::Tensor flags = at::zeros({3, 300}, options.dtype(at::kByte));
    at::Tensor counts = at::full({2}, 4, options.dtype(at::kLong));
    record(rows, flags, counts, values, 9.0, nonfinite);
    CHECK(counts[0].item<int64_t>() == 5);
    CHECK(at::equal(rows[1].cpu(), at::tensor({1.5, 2.5, std::pow(2.0, 40), -4.0, 1.0, 9.0}, at::kDouble)));
    CHECK(at::equal(flags[1], nonfinite));
    results.push_back({rows, flags});
  }
  CHECK(at::equal(results[0][0], results[1][0]));
  CHECK(at::equal(results[0][1], results[1][1]));
}

}  // namespace

AMPCTL_DEVICE_TEST_CASE(check_equals_composition, "record_row_ writes what stock operators write")
