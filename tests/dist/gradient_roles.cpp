#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include "base/error.h"
#include "dist/collectives.h"
#include "dist/consistency.h"
#include "dist/distributed_data_parallel.h"
#include "net.h"
#include "roles.h"

namespace ampctl::test {
namespace {

using dist::DdpOptions;
using dist::DistributedDataParallel;
using dist::World;

constexpr uint64_t kSeed = 7;
constexpr double kRounding = 1e-12;  // float64

/// This rank's contiguous share of n samples: as equal as can be, the first ranks one more.
std::pair<int64_t, int64_t> share_of(const World& world, int64_t samples) {
  const int64_t size = samples / world.size();
  const int64_t longer = samples % world.size();
  return {size * world.rank() + std::min(world.rank(), longer), size + (world.rank() < longer ? 1 : 0)};
}

/// One window through DDP, as the trainer runs it; only the last micro-batch synchronises.
void run_window(const World& world, const Net& net, DistributedDataParallel& ddp, const Samples& window,
                int64_t micro_batch) {
  const auto [begin, size] = share_of(world, window.size());
  const double weight = static_cast<double>(world.size()) / static_cast<double>(window.size());
  const bool idle = size == 0;
  const Samples share = idle ? window.part(0, 1) : window.part(begin, size);
  for (int64_t done = 0; done < share.size(); done += micro_batch) {
    const int64_t count = std::min(micro_batch, share.size() - done);
    const bool last = done + count == share.size();
    if (last) ddp.prepare_forward();
    const at::Tensor loss = summed_loss(net, share.part(done, count)).mul(idle ? 0.0 : weight);
    if (last) ddp.prepare_backward({loss});
    loss.backward();
  }
}

/// After 3 windows, since buckets are put into another order after the first; gradients are the ones
/// expected, and equal on all ranks to the last bit.
void check_windows(const World& world, int64_t samples, int64_t micro_batch, const DdpOptions& options,
                   double tolerance, at::TensorOptions type) {
  const Net net(kSeed, type);
  const Samples window = make_samples(samples, type);
  DistributedDataParallel ddp(world, net.parameters, {}, options);
  const auto expected = expected_gradients(kSeed, window);
  for (int round = 0; round < 3; ++round) {
    net.zero_gradients();
    run_window(world, net, ddp, window, micro_batch);
    const double difference = largest_difference(net.gradients(), expected);
    require(difference <= tolerance, "gradients of " + std::to_string(samples) + " samples differ by " +
                                         std::to_string(difference) + " from the single process's");
    dist::NamedTensors gradients;
    gradients.reserve(net.parameters.size());
    for (const auto& [name, tensor] : net.parameters) gradients.emplace_back(name, tensor.grad());
    dist::require_no_drift(world, round, 1, 0, gradients);
  }
}

void equal_single_process(const World& world) {
  constexpr int64_t kWhole = 64;  // more than any share: no accumulation
  check_windows(world, 12, kWhole, {}, kRounding, at::kDouble);
  check_windows(world, 7, kWhole, {}, kRounding, at::kDouble);  // unequal shares
  check_windows(world, 1, kWhole, {}, kRounding, at::kDouble);  // ranks without a sample
  check_windows(world, 24, 4, {}, kRounding, at::kDouble);      // accumulation
  check_windows(world, 13, 3, {}, kRounding,
                at::kDouble);  // both, with unequal numbers of micro-batches
}

void options_change_nothing(const World& world) {
  DdpOptions views;
  views.gradient_as_bucket_view = true;
  check_windows(world, 13, 3, views, kRounding, at::kDouble);
  DdpOptions unused;
  unused.find_unused_parameters = true;
  check_windows(world, 13, 3, unused, kRounding, at::kDouble);
}

void compression(const World& world) {
  // Relative rounding errors of one rounding a share and one a sum: 2 · 2^-11 and 2 · 2^-8.
  DdpOptions options;
  options.compression = DdpOptions::Compression::float16;
  check_windows(world, 12, 3, options, std::ldexp(1.0, -10), at::kFloat);
  options.compression = DdpOptions::Compression::bfloat16;
  check_windows(world, 12, 3, options, std::ldexp(1.0, -7), at::kFloat);
}

/// The gradients when only rank 0's samples go through the branch.
std::vector<at::Tensor> expected_of_branch(const Samples& window, int64_t of_rank_0) {
  const Net net(kSeed);
  const at::Tensor loss = summed_loss(net, window.part(0, of_rank_0), true) +
                          summed_loss(net, window.part(of_rank_0, window.size() - of_rank_0), false);
  loss.div(window.size()).backward();
  return net.gradients();
}

void unused_parameters(const World& world) {
  const Net net(kSeed);
  const Samples window = make_samples(8);
  DdpOptions options;
  options.find_unused_parameters = true;
  DistributedDataParallel ddp(world, net.parameters, {}, options);
  const auto [begin, size] = share_of(world, window.size());
  const auto step = [&, first = begin, count = size](bool with_branch) {
    net.zero_gradients();
    ddp.prepare_forward();
    const at::Tensor loss = summed_loss(net, window.part(first, count), with_branch)
                                .mul(static_cast<double>(world.size()) / static_cast<double>(window.size()));
    ddp.prepare_backward({loss});
    loss.backward();
  };
  step(world.is_main());
  const auto expected = expected_of_branch(window, window.size() / world.size());
  require(largest_difference(net.gradients(), expected) <= kRounding,
          "a branch that one rank uses has its gradient");
  step(false);
  require(largest_difference(net.gradients(), expected_gradients(kSeed, window, false)) <= kRounding,
          "a branch that nobody uses does not matter");
}

void start_is_rank_0s(const World& world) {
  const Net net(kSeed + static_cast<uint64_t>(world.rank()));
  at::Tensor mean = at::full({5}, static_cast<double>(world.rank()));
  at::Tensor count = at::full({}, world.rank(), at::kLong);
  DistributedDataParallel ddp(world, net.parameters, {mean, count}, {});
  const Net first(kSeed);
  for (size_t i = 0; i < first.parameters.size(); ++i) {
    require(at::equal(net.parameters[i].second, first.parameters[i].second), "parameters are rank 0's");
  }
  require(mean.sum().item<double>() == 0 && count.item<int64_t>() == 0, "buffers are rank 0's at the start");
  mean.fill_(1 + static_cast<double>(world.rank()));
  ddp.prepare_forward();
  require(mean.sum().item<double>() == 5, "buffers are rank 0's before a forward");

  DdpOptions options;
  options.broadcast_buffers = false;
  DistributedDataParallel without(world, net.parameters, {mean}, options);
  mean.fill_(static_cast<double>(world.rank()));
  without.prepare_forward();
  require(mean.sum().item<double>() == 5 * static_cast<double>(world.rank()),
          "buffers stay a rank's own when told so");
}

void frozen_and_shared(const World& world) {
  Net net(kSeed + static_cast<uint64_t>(world.rank()));
  net.parameters[4].second.set_requires_grad(false);
  net.parameters.emplace_back("again", net.parameters[0].second);
  const Samples window = make_samples(6);
  DistributedDataParallel ddp(world, net.parameters, {}, {});
  run_window(world, net, ddp, window, window.size());
  require(!net.parameters[4].second.grad().defined(), "a frozen parameter gets no gradient");
  auto expected = expected_gradients(kSeed, window);
  expected.resize(4);
  require(largest_difference(net.gradients(), expected) <= kRounding, "the others' gradients are right");
}

void differing_models(const World& world) {
  Net net(kSeed);
  if (world.rank() == 1) {
    net.parameters[0].second = at::ones({4, 6}, at::kDouble).set_requires_grad(true);
    net.parameters[1].first = "fc1.shift";
    net.parameters[2].second = at::ones({5, 16}, at::kFloat).set_requires_grad(true);
  }
  const std::string message =
      message_of_error(ErrorKind::usage, [&] { DistributedDataParallel(world, net.parameters, {}, {}); });
  require_contains(message, "fc1.weight: float64 [16, 6] on rank 0; float64 [4, 6] on rank 1");
  require_contains(message, "fc1.bias: float64 [16] on rank 0; (absent) on rank 1");
  require_contains(message, "fc1.shift: (absent) on rank 0; float64 [16] on rank 1");
  require_contains(message, "fc2.weight: float64 [5, 16] on rank 0; float32 [5, 16] on rank 1");
  require(message.find("fc2.bias") == std::string::npos, "what is equal is not listed");

  Net swapped(kSeed);
  if (world.rank() == 1) std::swap(swapped.parameters[1], swapped.parameters[3]);
  require_contains(
      message_of_error(ErrorKind::usage, [&] { DistributedDataParallel(world, swapped.parameters, {}, {}); }),
      "another order on rank 1");
}

/// An inf in one rank's loss reaches every rank's gradients through the sum.
void overflow_on_one_rank(const World& world) {
  const Net net(kSeed, at::kFloat);
  const Samples window = make_samples(8, at::kFloat);
  DistributedDataParallel ddp(world, net.parameters, {}, {});
  ddp.prepare_forward();
  at::Tensor loss = summed_loss(net, window);
  if (world.rank() == 1) loss = loss * INFINITY;
  ddp.prepare_backward({loss});
  loss.backward();
  for (const auto& gradient : net.gradients()) {
    require(!gradient.isfinite().all().item<bool>(), "every rank sees the overflow");
  }
  at::Tensor found_inf = at::full({}, world.rank() == 1 ? 1.0 : 0.0, at::kFloat);
  dist::all_reduce_max_(world, found_inf);
  require(found_inf.item<float>() == 1.0F, "found_inf is 1 everywhere when one rank found it");
  found_inf.zero_();
  dist::all_reduce_max_(world, found_inf);
  require(found_inf.item<float>() == 0.0F, "found_inf stays 0 when no rank found it");
}

void gradients(const World& world) {
  equal_single_process(world);
  options_change_nothing(world);
  compression(world);
}

void models(const World& world) {
  start_is_rank_0s(world);
  frozen_and_shared(world);
  differing_models(world);
  unused_parameters(world);
  overflow_on_one_rank(world);
}

/// The same on GPUs, through NCCL.
void gradients_on_gpus(const World& world) {
  constexpr double kFloatRounding = 1e-5;
  const auto type = at::TensorOptions(at::kFloat).device(world.device());
  check_windows(world, 12, 64, {}, kFloatRounding, type);
  check_windows(world, 13, 3, {}, kFloatRounding, type);
  at::Tensor found_inf = at::full({}, world.rank() == 1 ? 1.0 : 0.0, type);
  dist::all_reduce_max_(world, found_inf);
  require(found_inf.item<float>() == 1.0F, "found_inf is 1 everywhere when one rank found it");
  at::Tensor sum = at::ones({1000}, type);
  dist::all_reduce_sum_(world, sum);
  require(sum.eq(world.size()).all().item<bool>(), "the sum of ones is the world's size");
}

}  // namespace

std::map<std::string, Role> gradient_roles() {
  return {{"gradients", gradients}, {"models", models}, {"gradients_on_gpus", gradients_on_gpus}};
}

}  // namespace ampctl::test
