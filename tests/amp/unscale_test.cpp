#include <cmath>

#include "amp/fixture.h"
#include "amp/grad_scaler.h"
#include "support/devices.h"

using namespace ampctl;
using amp::GradScaler;
using test::ProbeOptimizer;

namespace {

constexpr double kScale = 4.0;

GradScaler scaler_on(c10::Device device) {
  GradScaler scaler({.init_scale = kScale});
  scaler.materialize(device);
  return scaler;
}

// Whether unscale_ (or, for a fused optimizer, step) finds an overflow in the gradients.
bool overflow_found(c10::Device device, const std::vector<at::Tensor>& grads, bool fused = false) {
  GradScaler scaler = scaler_on(device);
  ProbeOptimizer optimizer(grads, fused);
  if (fused) {
    scaler.step(optimizer);
  } else {
    scaler.unscale_(optimizer);
  }
  return scaler.found_inf(optimizer).item<float>() == 1.0F;
}

std::vector<std::pair<std::string, at::Tensor>> layouts(c10::Device device) {
  const at::Tensor base = at::full({10, 10}, 8.0, at::TensorOptions(device));
  return {{"dense", base.clone()},
          {"transposed", base.clone().t()},
          {"slice of columns", base.clone().slice(1, 2, 5)},
          {"every other row", base.clone().slice(0, 0, 10, 2)},
          {"one value", base.clone()[0][0]},
          {"channels_last",
           at::full({2, 3, 4, 5}, 8.0, base.options()).contiguous(at::MemoryFormat::ChannelsLast)}};
}

void check_layouts(c10::Device device) {
  for (const auto& [name, grad] : layouts(device)) {
    INFO(name);
    GradScaler scaler = scaler_on(device);
    ProbeOptimizer optimizer({grad});
    scaler.unscale_(optimizer);
    CHECK(scaler.found_inf(optimizer).item<float>() == 0.0F);
    CHECK(at::equal(grad, at::full_like(grad, 8.0 / kScale)));
  }
  for (const double bad : {double(INFINITY), -double(INFINITY), double(NAN)}) {
    for (const auto& [name, grad] : layouts(device)) {
      INFO(name << " with " << bad);
      // The last element in the order of indices.
      at::Tensor last = grad;
      while (last.dim() > 0) last = last.select(0, last.size(0) - 1);
      last.fill_(bad);
      CHECK(overflow_found(device, {grad}));
    }
  }
}

void check_unscaling_keeps_the_rest_of_a_buffer(c10::Device device) {
  const at::Tensor buffer = at::full({6}, 8.0, at::TensorOptions(device));
  GradScaler scaler = scaler_on(device);
  ProbeOptimizer optimizer({buffer.slice(0, 1, 4)});
  scaler.unscale_(optimizer);
  const at::Tensor expected = at::tensor({8.0F, 2.0F, 2.0F, 2.0F, 8.0F, 8.0F}).to(device);
  CHECK(at::equal(buffer, expected));
}

void check_mixed_dtypes(c10::Device device) {
  const std::vector<at::ScalarType> dtypes{at::kFloat, at::kDouble, at::kFloat, at::kDouble};
  const auto make = [&] {
    std::vector<at::Tensor> grads;
    grads.reserve(dtypes.size());
    for (const auto dtype : dtypes)
      grads.push_back(at::full({3, 5}, 8.0, at::TensorOptions(device).dtype(dtype)));
    return grads;
  };
  auto clean = make();
  CHECK_FALSE(overflow_found(device, clean));
  for (const auto& grad : clean) CHECK(at::equal(grad, at::full_like(grad, 2.0)));
  for (size_t position = 0; position < dtypes.size(); ++position) {
    INFO("position " << position);
    auto grads = make();
    grads[position][2][4].fill_(INFINITY);
    CHECK(overflow_found(device, grads));
    grads[position][2][4].fill_(NAN);
    CHECK(overflow_found(device, grads));
  }
  // The fused path alone may meet float16 gradients.
  auto half = make();
  half.push_back(at::full({3}, 8.0, at::TensorOptions(device).dtype(at::kHalf)));
  CHECK_FALSE(overflow_found(device, half, /*fused=*/true));
  half.back()[1].fill_(INFINITY);
  CHECK(overflow_found(device, half, /*fused=*/true));
}

at::Tensor sparse(c10::Device device, at::ScalarType dtype, const std::vector<int64_t>& columns,
                  const std::vector<float>& values) {
  const auto count = static_cast<int64_t>(columns.size());
  at::Tensor indices = at::zeros({2, count}, at::kLong);
  indices[1].copy_(at::tensor(columns));
  return at::sparse_coo_tensor(indices.to(device), at::tensor(values).to(device, dtype), {2, 8});
}

void check_sparse(c10::Device device) {
  at::Tensor grad = sparse(device, at::kFloat, {1, 3, 5}, {8.0F, 16.0F, 4.0F});
  GradScaler scaler = scaler_on(device);
  ProbeOptimizer optimizer({grad});
  scaler.unscale_(optimizer);
  CHECK(scaler.found_inf(optimizer).item<float>() == 0.0F);
  CHECK(at::equal(grad._values().cpu(), at::tensor({2.0F, 4.0F, 1.0F})));
  for (const float bad : {INFINITY, NAN}) {
    CHECK(overflow_found(device, {sparse(device, at::kFloat, {1, 3, 5}, {8.0F, bad, 4.0F})}));
  }
}

void check_uncoalesced_float16(c10::Device device) {
  const auto duplicated = [&](float value) { return sparse(device, at::kHalf, {3, 3}, {value, value}); };
  CHECK_FALSE(overflow_found(device, {duplicated(16000.0F)}, /*fused=*/true));
  CHECK(overflow_found(device, {duplicated(64000.0F)}, /*fused=*/true));  // 128000 is beyond float16's 65504
}

}  // namespace

AMPCTL_DEVICE_TEST_CASE(
    check_layouts, "unscale_ divides dense, transposed and sliced gradients and finds inf and NaN in them")
AMPCTL_DEVICE_TEST_CASE(check_unscaling_keeps_the_rest_of_a_buffer,
                        "unscale_ of a slice leaves the buffer around it alone")
AMPCTL_DEVICE_TEST_CASE(check_mixed_dtypes,
                        "One optimizer may mix dtypes, and an inf is found in each position")
AMPCTL_DEVICE_TEST_CASE(check_sparse, "Sparse gradients are unscaled and checked by their values")
AMPCTL_DEVICE_TEST_CASE(check_uncoalesced_float16,
                        "Float16 duplicates of a sparse gradient that overflow when summed are an overflow")
