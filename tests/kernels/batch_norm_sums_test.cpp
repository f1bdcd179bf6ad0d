// Batch norm that is handed sums of its input.
#include <array>
#include <limits>

#include <ATen/core/grad_mode.h>

#include "batch_norm_fixture.h"
#include "kernels/batch_norm_act.h"
#include "support/catch.h"
#include "support/skip.h"

using namespace ampctl;
using kernels::BatchNormInputs;

namespace {

constexpr int64_t kChannels = 72;

at::Tensor sums_of(const at::Tensor& input) {
  const at::Tensor wide = input.to(at::kDouble);
  constexpr std::array<int64_t, 3> kRows{0, 2, 3};
  return at::stack({wide.sum(kRows), wide.square().sum(kRows)}).to(at::kFloat);
}

at::Tensor images() { return test::random_images({3, kChannels, 19, 23}, at::kHalf, 5).cuda(); }

struct Found {
  at::Tensor output;
  BatchNormInputs inputs;
};

Found run(const at::Tensor& input, const at::Tensor& sums) {
  const at::NoGradGuard no_grad;
  Found found{{}, test::batch_norm_inputs(kChannels, at::kHalf, at::kCUDA)};
  found.inputs.sums = sums;
  found.output = kernels::batch_norm_act(input, found.inputs, /*relu=*/true);
  return found;
}

}  // namespace

TEST_CASE("Batch norm with its input's sums gives what it gives without them", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const at::Tensor input = images();
  const Found with = run(input, sums_of(input));
  const Found without = run(input, {});
  CHECK(test::relative_error(with.output, without.output) < 1e-4);
  CHECK(test::relative_error(with.inputs.running_mean, without.inputs.running_mean) < 1e-6);
  CHECK(test::relative_error(with.inputs.running_var, without.inputs.running_var) < 1e-5);
  CHECK(at::equal(with.inputs.num_batches_tracked, without.inputs.num_batches_tracked));
}

TEST_CASE("Batch norm takes the sums that it is handed for those of its input", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const at::Tensor input = images();
  const Found with = run(input, sums_of(input + 1));
  const Found without = run(input, {});
  // 0.1 of the batch's mean goes into the running mean.
  CHECK(at::allclose(with.inputs.running_mean, without.inputs.running_mean + 0.1, 1e-3, 1e-3));
}

TEST_CASE("Batch norm reads channels anew whose sums do not tell their variance", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  at::Tensor input = images();
  input.select(1, 3).add_(1000);
  // In float32 the squares of this channel leave nothing of its variance.
  const Found with = run(input, sums_of(input));
  const Found without = run(input, {});
  const auto group = at::indexing::Slice(0, 64);
  CHECK(at::equal(with.inputs.running_var.index({group}), without.inputs.running_var.index({group})));
  CHECK(test::relative_error(with.output, without.output) < 1e-4);

  const double inf = std::numeric_limits<double>::infinity();
  input.select(1, 3).select(0, 0).fill_(inf);
  const Found overflown = run(input, sums_of(input));
  CHECK(overflown.output.select(1, 3).isnan().all().item<bool>());
  CHECK_FALSE(overflown.output.select(1, 4).isnan().any().item<bool>());
}
