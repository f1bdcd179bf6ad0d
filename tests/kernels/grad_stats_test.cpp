#include "kernels/grad_stats.h"

#include <cmath>

#include <ATen/ATen.h>

#include "base/error.h"
#include "support/devices.h"

#ifdef AMPCTL_WITH_CUDA
#include "support/captured.h"
#include "support/no_sync.h"
#endif

using namespace ampctl;
using kernels::grad_stats;
using kernels::GradStats;

namespace {

const std::vector<at::ScalarType> kTypes{at::kHalf, at::kBFloat16, at::kFloat, at::kDouble};

// The CUDA kernel's unit of work, so that sizes around it are tried.
constexpr int64_t kChunk = 32768;

// Whole numbers from -7 to 7: exact in every type, and so is the sum of their squares in float64.
at::Tensor whole_numbers(int64_t numel, c10::Device device, at::ScalarType dtype) {
  return at::arange(numel, at::kLong).mul(5).remainder(15).sub(7).to(device, dtype);
}

double exact_sum(int64_t numel) {
  double sum = 0.0;
  for (int64_t i = 0; i < numel; ++i) {
    const auto value = static_cast<double>(5 * i % 15 - 7);
    sum += value * value;
  }
  return sum;
}

std::vector<double> sums(const GradStats& stats) {
  const at::Tensor host = stats.sum_squares.cpu();
  return {host.const_data_ptr<double>(), host.const_data_ptr<double>() + host.numel()};
}

std::vector<int> flags(const GradStats& stats) {
  const at::Tensor host = stats.nonfinite.cpu();
  return {host.const_data_ptr<uint8_t>(), host.const_data_ptr<uint8_t>() + host.numel()};
}

// What holds of all gradients together follows from the single ones.
void check_totals(const GradStats& stats) {
  double sum = 0.0;
  for (const double single : sums(stats)) sum += single;
  bool found_inf = false;
  for (const int flag : flags(stats)) found_inf = found_inf || flag != 0;
  CHECK(stats.found_inf.scalar_type() == at::kFloat);
  CHECK(stats.found_inf.item<float>() == (found_inf ? 1.0F : 0.0F));
  CHECK(stats.norm.scalar_type() == at::kDouble);
  if (!found_inf) CHECK(stats.norm.item<double>() == Approx(std::sqrt(sum)).epsilon(1e-14));
}

void check_sizes(c10::Device device) {
  for (const auto dtype : kTypes) {
    std::vector<at::Tensor> grads;
    std::vector<double> expected;
    for (const int64_t numel : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{31}, int64_t{513}, kChunk - 1,
                                kChunk, kChunk + 1, 3 * kChunk + 17}) {
      grads.push_back(whole_numbers(numel, device, dtype));
      expected.push_back(exact_sum(numel));
    }
    const GradStats stats = grad_stats(grads);
    INFO(dtype);
    CHECK(stats.nonfinite.scalar_type() == at::kByte);
    CHECK(stats.sum_squares.scalar_type() == at::kDouble);
    CHECK(stats.sum_squares.device() == device);
    CHECK(sums(stats) == expected);
    CHECK(flags(stats) == std::vector<int>(grads.size(), 0));
    check_totals(stats);
  }
}

void check_every_position(c10::Device device) {
  for (const auto dtype : kTypes) {
    for (const double bad : {double(INFINITY), -double(INFINITY), double(NAN)}) {
      const int64_t numel = 67;
      std::vector<at::Tensor> grads;
      for (int64_t position = 0; position < numel; ++position) {
        grads.push_back(whole_numbers(numel, device, dtype));
        grads.back()[position].fill_(bad);
        grads.push_back(whole_numbers(numel, device, dtype));  // a clean neighbour
      }
      const auto found = flags(grad_stats(grads));
      INFO(dtype << " " << bad);
      for (size_t i = 0; i < found.size(); ++i) {
        if (found[i] != (i % 2 == 0 ? 1 : 0)) FAIL_CHECK("gradient " << i << ": flag " << found[i]);
      }
    }
  }
}

void check_chunk_borders(c10::Device device) {
  for (const int64_t position :
       {int64_t{0}, kChunk - 1, kChunk, 2 * kChunk - 1, 2 * kChunk, 2 * kChunk + 4}) {
    INFO(position);
    const at::Tensor grad = whole_numbers(2 * kChunk + 5, device, at::kHalf);
    grad[position].fill_(INFINITY);
    CHECK(flags(grad_stats({whole_numbers(3, device, at::kHalf), grad})) == std::vector<int>{0, 1});
  }
}

void check_views(c10::Device device) {
  for (const auto dtype : kTypes) {
    INFO(dtype);
    // Every offset from a 16-byte border, in odd lengths; values outside of the view would make it infinite.
    for (int64_t offset = 1; offset < 9; ++offset) {
      const at::Tensor buffer = at::full({1100}, INFINITY, at::TensorOptions(device).dtype(dtype));
      const at::Tensor view = buffer.narrow(0, offset, 1003);
      view.copy_(whole_numbers(1003, device, dtype));
      const GradStats stats = grad_stats({view});
      CHECK(sums(stats)[0] == exact_sum(1003));
      CHECK(flags(stats)[0] == 0);
    }
    const at::Tensor image = whole_numbers(2 * 3 * 5 * 7, device, dtype).reshape({2, 3, 5, 7});
    const at::Tensor columns = at::full({15, 14}, INFINITY, image.options()).slice(1, 0, 14, 2);
    columns.copy_(whole_numbers(105, device, dtype).reshape({15, 7}));
    const at::Tensor expanded = at::full({1}, 3.0, image.options()).expand({10});
    const GradStats stats = grad_stats(
        {image.contiguous(at::MemoryFormat::ChannelsLast), image.transpose(1, 3), columns, expanded});
    CHECK(sums(stats) == std::vector<double>{exact_sum(210), exact_sum(210), exact_sum(105), 90.0});
    CHECK(flags(stats) == std::vector<int>{0, 0, 0, 0});
  }
}

void check_large_values(c10::Device device) {
  const at::TensorOptions options(device);
  const float large = 3e38F;
  const std::vector<at::Tensor> grads{
      at::full({1000}, large, options.dtype(at::kFloat)), at::full({1000}, 65504.0, options.dtype(at::kHalf)),
      at::full({1000}, 3e38, options.dtype(at::kBFloat16)), at::full({2}, 1e200, options.dtype(at::kDouble)),
      at::full({4}, 1e-30, options.dtype(at::kFloat))};
  const GradStats stats = grad_stats(grads);
  CHECK(flags(stats) == std::vector<int>{0, 0, 0, 0, 0});
  CHECK(sums(stats)[0] == Approx(1000.0 * static_cast<double>(large) * static_cast<double>(large)));
  CHECK(sums(stats)[1] == 1000.0 * 65504.0 * 65504.0);
  CHECK(std::isfinite(sums(stats)[2]));
  CHECK(sums(stats)[4] == Approx(4e-60));  // float32 would have lost it
}

void check_many_mixed(c10::Device device) {
  // More than one launch of the CUDA kernels takes, in every respect.
  std::vector<at::Tensor> grads;
  std::vector<double> expected;
  std::vector<int> expected_flags;
  for (int64_t i = 0; i < 2500; ++i) {
    if (i % 50 == 3) {
      grads.emplace_back();  // a parameter without gradient
      expected.push_back(0.0);
      expected_flags.push_back(0);
      continue;
    }
    const int64_t numel = i == 500 ? 400 * kChunk : (i * 37) % 301;
    grads.push_back(whole_numbers(numel, device, i == 500 ? at::kHalf : kTypes[static_cast<size_t>(i) % 4]));
    expected.push_back(exact_sum(numel));
    expected_flags.push_back(0);
  }
  CHECK(sums(grad_stats(grads)) == expected);
  check_totals(grad_stats(grads));
  for (const size_t bad : {size_t{1}, size_t{500}, size_t{501}, size_t{511}, size_t{512}, size_t{2047},
                           size_t{2048}, size_t{2499}}) {
    grads[bad][grads[bad].numel() - 1].fill_(NAN);
    expected_flags[bad] = 1;
  }
  CHECK(flags(grad_stats(grads)) == expected_flags);
  check_totals(grad_stats(grads));
}

void check_composition_and_repeatability(c10::Device device) {
  at::Generator generator = at::detail::createCPUGenerator(11);
  std::vector<at::Tensor> grads;
  for (const int64_t numel : {5, 1000, 70001, 300007}) {
    grads.push_back(at::randn({numel}, generator, at::kFloat).to(device));
    grads.push_back(at::randn({numel}, generator, at::kFloat).to(device, at::kHalf));
  }
  const GradStats stats = grad_stats(grads);
  const GradStats reference = kernels::grad_stats_reference(grads);
  CHECK(at::equal(stats.nonfinite, reference.nonfinite));
  CHECK(at::allclose(stats.sum_squares, reference.sum_squares, 1e-12));
  for (int i = 0; i < 5; ++i) CHECK(at::equal(grad_stats(grads).sum_squares, stats.sum_squares));
}

}  // namespace

AMPCTL_DEVICE_TEST_CASE(check_sizes, "Sums of squares are exact for whole numbers of every type and size")
AMPCTL_DEVICE_TEST_CASE(check_every_position,
                        "An inf or NaN in any position is found, and its neighbours stay clean")
AMPCTL_DEVICE_TEST_CASE(check_chunk_borders, "An inf at the border of two units of work is found")
AMPCTL_DEVICE_TEST_CASE(check_views,
                        "Misaligned, permuted, gapped and expanded gradients are read as they are")
AMPCTL_DEVICE_TEST_CASE(check_large_values,
                        "Large finite gradients neither count as infinite nor overflow their sum")
AMPCTL_DEVICE_TEST_CASE(check_many_mixed,
                        "Thousands of gradients of mixed types, some absent, keep their places")
AMPCTL_DEVICE_TEST_CASE(check_composition_and_repeatability,
                        "Results agree with stock operators and repeat bit for bit")

TEST_CASE("Gradients that cannot be read are refused") {
  CHECK_THROWS_AS(grad_stats({}), Error);
  CHECK_THROWS_AS(grad_stats({at::Tensor()}), Error);
  CHECK_THROWS_AS(grad_stats({at::ones({2}, at::kLong)}), Error);
  CHECK_THROWS_AS(grad_stats({at::ones({2, 2}).to_sparse()}), Error);
}

#ifdef AMPCTL_WITH_CUDA
TEST_CASE("Gradients of two devices are refused", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  CHECK_THROWS_AS(grad_stats({at::ones({2}), at::ones({2}, at::kCUDA)}), Error);
}

TEST_CASE("grad_stats reads nothing on the host and replays in a CUDA graph", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const c10::Device device(at::kCUDA, 0);
  const std::vector<at::Tensor> grads{whole_numbers(1001, device, at::kFloat),
                                      whole_numbers(77, device, at::kHalf)};
  GradStats stats;
  {
    const test::NoSync no_sync;
    CHECK_NOTHROW(stats = grad_stats(grads));
  }
  test::Captured graph([&] { stats = grad_stats(grads); });
  grads[1][76].fill_(INFINITY);
  graph.replay();
  CHECK(flags(stats) == std::vector<int>{0, 1});
  CHECK(sums(stats)[0] == exact_sum(1001));
}
#endif
