#include "amp/autocast.h"

#include <stdexcept>
#include <thread>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/record_function.h>

#include "base/error.h"
#include "support/devices.h"

#ifdef AMPCTL_WITH_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

using namespace ampctl;
using amp::Autocast;

namespace {

struct Flags {
  bool enabled;
  at::ScalarType dtype;
  bool cache;
  bool operator==(const Flags&) const = default;
};

Flags flags(c10::DeviceType device) {
  return {at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device),
          at::autocast::is_autocast_cache_enabled()};
}

int nesting() {
  at::autocast::increment_nesting();
  return at::autocast::decrement_nesting();
}

// How often a tensor was cast while `action` ran.
int casts_during(const std::function<void()>& action) {
  static thread_local int casts = 0;
  casts = 0;
  const auto handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback([](const at::RecordFunction& function)
                                                                -> std::unique_ptr<at::ObserverContext> {
                                   if (std::string(function.name()) == "aten::_to_copy") ++casts;
                                   return nullptr;
                                 }).scopes({at::RecordScope::FUNCTION}));
  action();
  at::removeCallback(handle);
  return casts;
}

void check_one_cast_a_weight(c10::Device device) {
  const at::Tensor weight = at::rand({8, 8}, at::TensorOptions(device)).requires_grad_();
  const at::Tensor input = at::rand({8, 8}, at::TensorOptions(device)).to(at::kHalf);
  const auto two_uses = [&](bool cache) {
    const Autocast autocast(device.type(), at::kHalf, true, cache);
    at::linear(input, weight);
    at::linear(input, weight);
  };
  CHECK(casts_during([&] { two_uses(true); }) == 1);
  CHECK(casts_during([&] { two_uses(false); }) == 2);
  // The cache ends with its region: the weight may have changed by then.
  CHECK(casts_during([&] {
          two_uses(true);
          two_uses(true);
        }) == 2);
}

void check_nested_regions_share_the_cache(c10::Device device) {
  const at::Tensor weight = at::rand({8, 8}, at::TensorOptions(device)).requires_grad_();
  const at::Tensor input = at::rand({8, 8}, at::TensorOptions(device)).to(at::kHalf);
  CHECK(casts_during([&] {
          const Autocast outer(device.type(), at::kHalf);
          at::linear(input, weight);
          {
            const Autocast inner(device.type(), at::kHalf);
            at::linear(input, weight);
          }
          at::linear(input, weight);
        }) == 1);
}

void check_no_stale_cast_after_evaluation(c10::Device device) {
  const at::Tensor weight = at::ones({4, 4}, at::TensorOptions(device)).requires_grad_();
  const at::Tensor input = at::ones({4, 4}, at::TensorOptions(device));
  {
    const at::NoGradGuard no_grad;
    const Autocast autocast(device.type(), at::kHalf);
    at::linear(input, weight);
  }
  {
    const at::NoGradGuard no_grad;
    weight.fill_(2.0);
  }
  at::Tensor output;
  {
    const Autocast autocast(device.type(), at::kHalf);
    output = at::linear(input, weight);
  }
  CHECK(at::equal(output, at::full_like(output, 8.0)));
  output.sum().backward();
  REQUIRE(weight.grad().defined());
  CHECK(weight.grad().scalar_type() == at::kFloat);
}

}  // namespace

AMPCTL_DEVICE_TEST_CASE(check_one_cast_a_weight,
                        "A weight used twice is cast once with the cache, twice without")
AMPCTL_DEVICE_TEST_CASE(check_nested_regions_share_the_cache,
                        "Leaving a nested region keeps the outer one's casts")
AMPCTL_DEVICE_TEST_CASE(check_no_stale_cast_after_evaluation,
                        "A cast made under no_grad is not reused by the training region that follows")

TEST_CASE("Regions nest, and each way out restores what was set before") {
  for (const auto device : {c10::kCPU, c10::kCUDA}) {
    const Flags before = flags(device);
    {
      const Autocast outer(device, at::kBFloat16, true, false);
      CHECK(flags(device) == Flags{true, at::kBFloat16, false});
      {
        const Autocast off(device, at::kHalf, /*enabled=*/false);
        CHECK(flags(device) == Flags{false, at::kHalf, true});
        {
          const Autocast again(device, at::kHalf);
          CHECK(flags(device) == Flags{true, at::kHalf, true});
          CHECK(nesting() == 3);
        }
        CHECK(flags(device) == Flags{false, at::kHalf, true});
      }
      CHECK(flags(device) == Flags{true, at::kBFloat16, false});
    }
    CHECK(flags(device) == before);
    CHECK(nesting() == 0);
  }
}

TEST_CASE("An exception leaves no region open") {
  const Flags before = flags(c10::kCPU);
  try {
    const Autocast outer(c10::kCPU, at::kHalf, true, false);
    const Autocast inner(c10::kCPU, at::kBFloat16, false);
    throw std::runtime_error("from the model");
  } catch (const std::runtime_error&) {
  }
  CHECK(flags(c10::kCPU) == before);
  CHECK(nesting() == 0);
  CHECK_THROWS_AS(Autocast(c10::kCPU, at::kFloat), Error);
  CHECK(flags(c10::kCPU) == before);
  CHECK(nesting() == 0);
}

TEST_CASE("A disabled region inside an enabled one computes in its inputs' type") {
  const at::Tensor matrix = at::rand({4, 4});
  const Autocast autocast(c10::kCPU, at::kHalf);
  CHECK(at::mm(matrix, matrix).scalar_type() == at::kHalf);
  {
    const Autocast off(c10::kCPU, at::kHalf, /*enabled=*/false);
    CHECK(at::mm(matrix, matrix).scalar_type() == at::kFloat);
  }
  CHECK(at::mm(matrix, matrix).scalar_type() == at::kHalf);
}

TEST_CASE("A region belongs to its thread") {
  const Autocast autocast(c10::kCPU, at::kHalf);
  bool enabled = true;
  std::thread([&] { enabled = at::autocast::is_autocast_enabled(c10::kCPU); }).join();
  CHECK_FALSE(enabled);
}

#ifdef AMPCTL_WITH_CUDA
TEST_CASE("Memory stays flat over forward passes without gradients in one region", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const at::Tensor weight = at::rand({256, 256}, at::kCUDA).requires_grad_();
  const at::Tensor input = at::rand({256, 256}, at::kCUDA);
  const auto allocated = [] {
    return c10::cuda::CUDACachingAllocator::getDeviceStats(0)
        .allocated_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)]
        .current;
  };
  const Autocast autocast(c10::kCUDA, at::kHalf);
  const at::NoGradGuard no_grad;
  at::linear(input, weight);
  const int64_t after_first = allocated();
  for (int i = 0; i < 10; ++i) at::linear(input, weight);
  CHECK(allocated() == after_first);
}
#endif
